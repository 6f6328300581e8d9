//! Three clusters at once: one consumer and two providers.

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::fixtures::pod;
use liqo_testkit::{Lab, Scenario};

fn main() -> ExitCode {
    Scenario::on("three")
        .fact("each of three clusters reaches the api server of the others", reach)
        .run()
}

fn reach(lab: &Lab) -> Result<()> {
    let names = ["venice", "florence", "naples"];
    for name in names {
        lab.apply(name, &[pod("asker").build()])?;
        let nodes = lab.kubectl(name, "get nodes --no-headers")?;
        ensure!(nodes.starts_with(&format!("{name}-1 ")), "{nodes}");
    }
    for name in names {
        lab.ready(name, &["asker"])?;
        for other in names {
            let address = lab.plan().cluster(other).context(other)?.control_plane().address;
            lab.kubectl(name, &format!("exec asker -- demo wait-for {address}:6443 --max-time 3"))?;
        }
    }
    Ok(())
}

//! A cluster behind a router that translates reaches out under the router's address, and is not
//! reached from outside.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::fixtures::{pod, service};
use liqo_testkit::{Lab, Scenario, eventually};

const SOON: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    Scenario::on("nat")
        .fact("the outside sees the routers address and not the nodes", translated)
        .fact("nobody outside reaches a translated node", hidden)
        .run()
}

fn translated(lab: &Lab) -> Result<()> {
    lab.apply("rome", &[pod("asker").build()])?;
    lab.apply("milan", &[pod("teller").build()])?;
    lab.apply("milan", &[service("teller").on_node_port(30080).locally().build()])?;
    lab.ready("rome", &["asker"])?;
    lab.ready("milan", &["teller"])?;
    let rome = lab.plan().cluster("rome").context("rome")?;
    let router = rome.public_address.context("rome is translated")?;
    let milan = lab.plan().cluster("milan").context("milan")?.control_plane().address;
    let url = format!("http://{milan}:30080/");
    let said = eventually(SOON, &url, || lab.ask("rome", "asker", &url))?;
    let client = said["client"].as_str().context("a client")?;
    ensure!(client.starts_with(&format!("{router}:")), "{client} instead of {router}");
    Ok(())
}

fn hidden(lab: &Lab) -> Result<()> {
    let rome = lab.plan().cluster("rome").context("rome")?;
    let router = rome.public_address.context("rome is translated")?;
    for address in [rome.control_plane().address, router] {
        let reach = format!("exec teller -- demo wait-for {address}:6443 --max-time 1");
        ensure!(lab.kubectl("milan", &reach).is_err(), "milan reaches {address}");
    }
    // Its administrator, who is inside, does.
    lab.kubectl("rome", "get nodes")?;
    Ok(())
}

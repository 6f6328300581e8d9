//! Two clusters behind routers meet at the ports that one of the routers forwards.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::fixtures::{pod, service};
use liqo_testkit::{Lab, Scenario, eventually};

const SOON: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    Scenario::on("both-nat")
        .fact("a forwarded port leads to the node behind the router", forwarded)
        .fact("a port that is not forwarded leads nowhere", not_forwarded)
        .fact("the api server is known under its routers address", certificate)
        .run()
}

fn forwarded(lab: &Lab) -> Result<()> {
    lab.apply("rome", &[pod("asker").build()])?;
    lab.apply("milan", &[pod("teller").build()])?;
    lab.apply("milan", &[service("teller").on_node_port(32443).locally().build()])?;
    lab.ready("rome", &["asker"])?;
    lab.ready("milan", &["teller"])?;
    let url = format!("http://{}:32443/", router(lab, "milan")?);
    let said = eventually(SOON, &url, || lab.ask("rome", "asker", &url))?;
    ensure!(said["pod"] == "teller", "{said}");
    let client = said["client"].as_str().context("a client")?.to_owned();
    ensure!(client.starts_with(&format!("{}:", router(lab, "rome")?)), "{client}");
    Ok(())
}

fn not_forwarded(lab: &Lab) -> Result<()> {
    let node = lab.plan().cluster("milan").context("milan")?.control_plane().address;
    for target in [format!("{}:10250", router(lab, "milan")?), format!("{node}:32443")] {
        let reach = format!("exec asker -- demo wait-for {target} --max-time 1");
        ensure!(lab.kubectl("rome", &reach).is_err(), "rome reaches {target}");
    }
    Ok(())
}

fn certificate(lab: &Lab) -> Result<()> {
    // From a node of rome, with milan's certificate checked under the address that rome sees.
    let config = std::fs::read_to_string(lab.kubeconfig("milan"))?;
    let node = lab.plan().cluster("milan").context("milan")?.control_plane().address;
    let config = config.replace(&node.to_string(), &router(lab, "milan")?.to_string());
    let put = format!("cat > /run/milan.conf <<'EOF'\n{config}\nEOF");
    lab.playground(&["exec", "rome-1", "--", "sh", "-c", &put])?;
    let words = ["exec", "rome-1", "--", "/run/engine/kubectl", "--kubeconfig=/run/milan.conf"];
    let nodes = lab.playground(&[&words[..], &["get", "nodes", "--no-headers"]].concat())?;
    ensure!(nodes.contains("milan-1"), "{nodes}");
    Ok(())
}

fn router(lab: &Lab, cluster: &str) -> Result<std::net::Ipv4Addr> {
    let cluster = lab.plan().cluster(cluster).context("the cluster")?;
    cluster.public_address.context("it is translated")
}

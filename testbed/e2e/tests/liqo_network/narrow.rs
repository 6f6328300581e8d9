//! A way between clusters that loses long packets of gateways without a word, and that is found out.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::{Lab, eventually};
use serde_json::Value;

use super::{SOON, failover, large, on};

/// What the chart has tunnels take.
const USUAL: u32 = 1340;
/// What the way takes: 60 bytes are the tunnel's, and it fills packets up to multiples of 16.
const WAY: u32 = 1300;
const FITS: u32 = 1232;

/// Large answers arrive, and the status says what passes.
pub fn found(lab: &Lab) -> Result<()> {
    narrow(lab, true)?;
    let over = failover::restart(lab, &["rome", "milan"]).and_then(|()| {
        for cluster in ["rome", "milan"] {
            eventually(SOON, "what passes is told", || {
                let mtu = told(lab, cluster)?;
                ensure!((FITS - 16..=FITS).contains(&mtu), "{cluster}: {mtu}");
                Ok(())
            })?;
        }
        large(lab)
    });
    narrow(lab, false)?;
    over
}

/// When the way is wide again, and somebody looks, the usual size is used.
pub fn is_wide(lab: &Lab) -> Result<()> {
    for cluster in ["rome", "milan"] {
        eventually(SOON, "what passes is told", || {
            let mtu = told(lab, cluster)?;
            ensure!(mtu == USUAL, "{cluster}: {mtu}");
            Ok(())
        })?;
    }
    Ok(())
}

/// The MTU of the tunnel, as `liqoctl status peer` tells it.
fn told(lab: &Lab, cluster: &str) -> Result<u32> {
    let said: Value = serde_json::from_str(&lab.liqoctl(cluster, "status peer -o json")?)?;
    let connection = &said[0]["network"]["connection"];
    let mtu = connection["mtu"].as_str().with_context(|| format!("{connection}"))?;
    Ok(mtu.parse()?)
}

/// Has milan's router lose long datagrams, or not any more.
fn narrow(lab: &Lab, is_narrow: bool) -> Result<()> {
    // A train of datagrams is no long one: it is taken apart where it leaves a node.
    let cars = if is_narrow { 1 } else { 65_535 };
    for node in ["rome-1", "rome-2", "milan-1", "milan-2"] {
        on(lab, node, &format!("ip link set eth0 gso_max_segs {cars}"))?;
    }
    let lan = &lab.plan().cluster("milan").context("milan is up")?.lan;
    let router = &lab.plan().lan(lan).context("it stands in a network")?.namespace;
    let script = if is_narrow {
        format!(
            "table ip narrow {{ chain c {{ type filter hook forward priority -450; \
             meta l4proto udp meta length > {WAY} drop; }}; }}"
        )
    } else {
        "delete table ip narrow".to_owned()
    };
    let output = Command::new("ip").args(["netns", "exec", router, "nft", &script]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

//! Makes and removes network namespaces, cables, routes and filters.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use super::{Error, run};
use crate::plan::network::Step;
use crate::plan::{Plan, SLOTS, host_link};

/// Carries out steps, in order.
pub fn enact(steps: &[Step]) -> Result<(), Error> {
    steps.iter().try_for_each(|step| match step {
        Step::Namespace(name) => run("ip", &["netns", "add", name], "").map(drop),
        Step::Ip(None, lines) => run("ip", &["-batch", "-"], &lines.join("\n")).map(drop),
        Step::Ip(Some(namespace), lines) => {
            run("ip", &["-n", namespace, "-batch", "-"], &lines.join("\n")).map(drop)
        }
        Step::Nft(namespace, script) => inside(namespace, &["nft", "-f", "-"], script).map(drop),
        Step::Sysctl(namespace, pairs) => {
            let words: Vec<String> = pairs
                .iter()
                .map(|(key, value)| format!("{}={value}", key.replace('/', ".")))
                .collect();
            let mut command = vec!["sysctl", "-q", "-w"];
            command.extend(words.iter().map(String::as_str));
            inside(namespace, &command, "").map(drop)
        }
    })
}

/// Runs a command in a network namespace, and only that: the file system stays this machine's.
pub fn inside(namespace: &str, command: &[&str], input: &str) -> Result<String, Error> {
    let net = format!("--net={}", path_of(namespace).display());
    let mut arguments = vec![net.as_str(), "--"];
    arguments.extend(command);
    run("nsenter", &arguments, input)
}

/// The file that stands for a network namespace.
pub fn path_of(namespace: &str) -> PathBuf {
    Path::new("/run/netns").join(namespace)
}

/// Whether a namespace exists.
pub fn exists(namespace: &str) -> bool {
    path_of(namespace).exists()
}

/// Removes a namespace and every cable that ends in it.
pub fn remove(namespace: &str) -> Result<(), Error> {
    if !exists(namespace) {
        return Ok(());
    }
    run("ip", &["netns", "delete", namespace], "").map(drop)
}

/// Removes an interface of this machine.
pub fn remove_interface(name: &str) -> Result<(), Error> {
    if !Path::new("/sys/class/net").join(name).exists() {
        return Ok(());
    }
    run("ip", &["link", "delete", name], "").map(drop)
}

/// Namespaces and interfaces that a new playground of this prefix would collide with.
pub fn in_the_way(prefix: &str) -> Vec<String> {
    let starts = format!("{prefix}.");
    let names = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let interface = format!("{prefix}-host");
    let namespaces = names("/run/netns").into_iter().filter(|name| name.starts_with(&starts));
    let interfaces = names("/sys/class/net").into_iter().filter(|name| *name == interface);
    namespaces.chain(interfaces).collect()
}

/// The lowest slot that no playground of this machine has.
pub fn free_slot() -> Result<Option<u8>, Error> {
    let addresses = run("ip", &["-4", "-oneline", "addr", "show"], "")?;
    let taken: Vec<Ipv4Addr> = addresses
        .split_whitespace()
        .filter_map(|word| word.split('/').next()?.parse().ok())
        .collect();
    Ok((0..SLOTS).find(|slot| !taken.contains(&host_link(*slot).0)))
}

/// Removes all namespaces and interfaces of a plan; goes on after a failure and returns all of them.
pub fn remove_all(plan: &Plan) -> Vec<Error> {
    let namespaces = plan.namespaces();
    let failures = namespaces.iter().filter_map(|namespace| remove(namespace).err());
    let interface = remove_interface(&plan.host_interface()).err();
    failures.chain(interface).collect()
}

//! What is asked of a kubelet, as it is asked of an API server: a path and its query, nothing else.
//!
//! | kubelet | API server |
//! | --- | --- |
//! | `/containerLogs/{ns}/{pod}/{container}?follow=true` | `…/{remote}/pods/{pod}/log?container=…&follow=true` |
//! | `/exec/{ns}/{pod}/{container}?command=sh&input=1&tty=1` | `…/exec?container=…&command=sh&stdin=true&tty=true` |
//! | `/attach/{ns}/{pod}/{container}?output=1` | `…/attach?container=…&stdout=true` |
//! | `/portForward/{ns}/{pod}?port=80,81` | `…/portforward?ports=80,81` |
//!
//! Values are passed on as they are encoded, so that every command arrives letter by letter; what is
//! not in these tables is dropped. Names become part of a path that is asked for in another cluster:
//! only what can be a name is let through.

/// A subresource of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What a container printed.
    Log,
    /// A command in a container.
    Exec,
    /// The main process of a container.
    Attach,
    /// Ports of the pod.
    PortForward,
}

/// How a value of a query is passed on.
#[derive(Clone, Copy)]
enum Value {
    /// As it is.
    Same,
    /// As `true`, if it says so, or not at all.
    Flag,
}

use Value::{Flag, Same};

/// What a parameter of a kubelet is called by an API server.
type Parameters = &'static [(&'static str, &'static str, Value)];

const LOG: Parameters = &[
    ("follow", "follow", Same),
    ("limitBytes", "limitBytes", Same),
    ("previous", "previous", Same),
    ("sinceSeconds", "sinceSeconds", Same),
    ("sinceTime", "sinceTime", Same),
    ("stream", "stream", Same),
    ("tailLines", "tailLines", Same),
    ("timestamps", "timestamps", Same),
];
const ATTACH: Parameters = &[
    ("input", "stdin", Flag),
    ("output", "stdout", Flag),
    ("error", "stderr", Flag),
    ("tty", "tty", Flag),
];
const EXEC: Parameters = &[
    ("command", "command", Same),
    ("input", "stdin", Flag),
    ("output", "stdout", Flag),
    ("error", "stderr", Flag),
    ("tty", "tty", Flag),
];
const PORT_FORWARD: Parameters = &[("port", "ports", Same)];

impl Part {
    fn path(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portforward",
        }
    }

    fn parameters(self) -> Parameters {
        match self {
            Self::Log => LOG,
            Self::Exec => EXEC,
            Self::Attach => ATTACH,
            Self::PortForward => PORT_FORWARD,
        }
    }
}

/// A text that cannot be the name of a pod or a container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no name of a pod or a container")]
pub struct NoName(String);

/// Path and query at the API server, for a pod in a namespace there.
pub fn target(
    part: Part,
    namespace: &str,
    pod: &str,
    container: Option<&str>,
    query: Option<&str>,
) -> Result<String, NoName> {
    let mut words = Vec::new();
    if let Some(container) = container {
        words.push(format!("container={}", name(container)?));
    }
    for pair in query.unwrap_or_default().split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let known = part.parameters().iter().find(|(ours, ..)| *ours == key);
        match known {
            Some((_, theirs, Same)) => words.push(format!("{theirs}={value}")),
            Some((_, theirs, Flag)) if ["1", "true"].contains(&value) => {
                words.push(format!("{theirs}=true"));
            }
            Some((_, _, Flag)) | None => {}
        }
    }
    let (namespace, pod, part) = (name(namespace)?, name(pod)?, part.path());
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/{part}");
    Ok(if words.is_empty() { path } else { format!("{path}?{}", words.join("&")) })
}

fn name(text: &str) -> Result<&str, NoName> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_inner = |byte: u8| is_letter(byte) || byte == b'-' || byte == b'.';
    let ends_well = text.bytes().next().is_some_and(is_letter)
        && text.bytes().next_back().is_some_and(is_letter);
    if ends_well && text.len() <= 253 && text.bytes().all(is_inner) && !text.contains("..") {
        Ok(text)
    } else {
        Err(NoName(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_arrives_letter_by_letter() {
        let query =
            "command=sh&command=-c&command=echo+%22a%26b%22+%3E+%2Ftmp%2Fx&input=1&output=1&tty=1";
        assert_eq!(
            asked(Part::Exec, query),
            "/api/v1/namespaces/shop-rome/pods/web-0/exec?container=main&command=sh&command=-c\
             &command=echo+%22a%26b%22+%3E+%2Ftmp%2Fx&stdin=true&stdout=true&tty=true"
        );
    }

    #[test]
    fn streams_that_are_not_wanted_are_not_asked_for() {
        let query = "error=1&input=0&output=true&tty=";
        assert_eq!(
            asked(Part::Attach, query),
            "/api/v1/namespaces/shop-rome/pods/web-0/attach?container=main&stderr=true&stdout=true"
        );
    }

    #[test]
    fn logs_keep_all_their_options() {
        let query = "follow=true&limitBytes=10&previous=true&sinceSeconds=5&tailLines=3\
                     &sinceTime=2026-11-16T07%3A00%3A00Z&timestamps=true&stream=Stdout";
        assert_eq!(
            asked(Part::Log, query),
            format!("/api/v1/namespaces/shop-rome/pods/web-0/log?container=main&{query}")
        );
    }

    #[test]
    fn ports_belong_to_the_pod() {
        assert_eq!(
            target(Part::PortForward, "shop-rome", "web-0", None, Some("port=80,81")).unwrap(),
            "/api/v1/namespaces/shop-rome/pods/web-0/portforward?ports=80,81"
        );
        assert_eq!(
            target(Part::PortForward, "shop-rome", "web-0", None, None).unwrap(),
            "/api/v1/namespaces/shop-rome/pods/web-0/portforward"
        );
    }

    #[test]
    fn a_container_is_named_by_the_path_alone() {
        let asked = asked(Part::Log, "container=other&insecureSkipTLSVerifyBackend=true");
        assert!(asked.ends_with("/log?container=main"), "{asked}");
    }

    #[test]
    fn what_is_no_name_leads_nowhere() {
        for bad in ["", ".", "..", "../secrets", "a/b", "a?b", "a&b", "a%2fb", "A", "a..b", "-a"] {
            let pod = target(Part::Log, "shop-rome", bad, Some("main"), None);
            assert_eq!(pod, Err(NoName(bad.to_owned())));
            let container = target(Part::Log, "shop-rome", "web-0", Some(bad), None);
            assert_eq!(container, Err(NoName(bad.to_owned())));
        }
    }

    fn asked(part: Part, query: &str) -> String {
        target(part, "shop-rome", "web-0", Some("main"), Some(query)).unwrap()
    }
}

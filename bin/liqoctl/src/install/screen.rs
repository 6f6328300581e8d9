//! What the user reads in the end.

use liqo_chart::to_yaml;
use liqo_release::{Error, Failed, Outcome, Prepared, Undone};
use serde_json::Value;

use crate::failure::{Failure, chain};
use crate::printer::Printer;
use crate::version::CLIENT;

/// What would be done.
pub fn dry_run(prepared: &Prepared, given: &Value) -> String {
    let head = match &prepared.release {
        Some(release) => format!(
            "# Revision {} of release {} in namespace {}; nothing has been written.",
            release.version, release.name, release.namespace
        ),
        None => "# Everything already is as it is wanted.".to_owned(),
    };
    let values: String =
        to_yaml(given).lines().map(|line| format!("\n#   {line}")).collect::<String>();
    let hooks =
        prepared.rendered.hooks.iter().map(|hook| {
            format!("---\n# Source: {}\n{}\n", hook.document.source, hook.document.text)
        });
    let hooks: String = hooks.collect();
    format!("{head}\n# Values:{values}\n{hooks}{}", prepared.rendered.manifest())
}

/// It worked.
pub fn success(outcome: &Outcome, namespace: &str, values: &Value, printer: &Printer) {
    let name = values.pointer("/discovery/config/clusterName").and_then(Value::as_str);
    let name = name.unwrap_or_default();
    match outcome {
        Outcome::Unchanged => {
            printer.success(format!(
                "Already up to date: Liqo {CLIENT} in namespace {namespace}, cluster {name}"
            ));
            return;
        }
        Outcome::Installed => {
            printer.success(format!("Liqo {CLIENT} installed: this cluster is called {name}"));
        }
        Outcome::Upgraded => {
            printer.success(format!("Liqo {CLIENT} upgraded: this cluster is called {name}"));
        }
    }
    printer.info("Peer with another cluster: see `liqoctl peer --help`.");
    printer.info("Use the same version of Liqo in all clusters.");
}

/// It did not work.
pub fn failure(failed: &Failed, verbose: bool) -> Failure {
    let mut failure = Failure::text(format!("Liqo is not installed: {}", chain(&failed.error)));
    match &failed.undone {
        None => {}
        Some(Ok(Undone::Removed)) => {
            failure = failure.hint("Everything that was made has been removed again.");
        }
        Some(Ok(Undone::Restored(revision))) => {
            failure = failure.hint(format!("Everything is as it was in revision {revision}."));
        }
        Some(Err(error)) => {
            failure = failure.hint(format!(
                "Going back did not work either: {}. Run the command again, or `liqoctl uninstall`.",
                chain(error)
            ));
        }
    }
    if let Error::TimedOut(_) = failed.error {
        failure = failure
            .hint("Are the nodes ready, and is there room for the pods? See `kubectl get nodes`.")
            .hint("Can the nodes pull the images? Their place is the value image.registry.")
            .hint("Is the network slow? Give it more time with --timeout.");
        if !verbose {
            failure = failure.hint("Run the command again with --verbose to see every step.");
        }
    }
    failure
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn success_is_told_with_the_name_of_the_cluster() {
        insta::assert_snapshot!(told(&Outcome::Installed), @"
        INFO  Liqo v0.8.3 installed: this cluster is called rome
        INFO  Peer with another cluster: see `liqoctl peer --help`.
        INFO  Use the same version of Liqo in all clusters.
        ");
        insta::assert_snapshot!(told(&Outcome::Upgraded), @"
        INFO  Liqo v0.8.3 upgraded: this cluster is called rome
        INFO  Peer with another cluster: see `liqoctl peer --help`.
        INFO  Use the same version of Liqo in all clusters.
        ");
    }

    #[test]
    fn nothing_to_do_is_one_line() {
        insta::assert_snapshot!(told(&Outcome::Unchanged), @" INFO  Already up to date: Liqo v0.8.3 in namespace liqo, cluster rome");
    }

    #[test]
    fn a_timeout_says_what_was_waited_for_and_where_to_look() {
        let waiting = "liqo-gateway: ImagePullBackOff: no such image".to_owned();
        let failed = Failed { error: Error::TimedOut(waiting), undone: Some(Ok(Undone::Removed)) };

        insta::assert_snapshot!(words(&failed), @"
        ERRO  Liqo is not installed: timed out waiting for the condition (liqo-gateway: ImagePullBackOff: no such image)
        INFO  Everything that was made has been removed again.
        INFO  Are the nodes ready, and is there room for the pods? See `kubectl get nodes`.
        INFO  Can the nodes pull the images? Their place is the value image.registry.
        INFO  Is the network slow? Give it more time with --timeout.
        INFO  Run the command again with --verbose to see every step.
        ");
    }

    #[test]
    fn an_interruption_says_what_is_there_now() {
        let failed = Failed { error: Error::Interrupted, undone: Some(Ok(Undone::Restored(3))) };

        insta::assert_snapshot!(words(&failed), @"
        ERRO  Liqo is not installed: interrupted
        INFO  Everything is as it was in revision 3.
        ");
    }

    #[test]
    fn a_way_back_that_fails_is_told_too() {
        let undone = Some(Err(Error::TimedOut(String::new())));
        let failed = Failed { error: Error::Interrupted, undone };

        insta::assert_snapshot!(words(&failed), @"
        ERRO  Liqo is not installed: interrupted
        INFO  Going back did not work either: timed out waiting for the condition. Run the command again, or `liqoctl uninstall`.
        ");
    }

    fn told(outcome: &Outcome) -> String {
        let (printer, kept) = Printer::memory(false, false);
        let values = json!({"discovery": {"config": {"clusterName": "rome"}}});
        success(outcome, "liqo", &values, &printer);
        String::from_utf8(kept.lock().unwrap().clone()).unwrap()
    }

    fn words(failed: &Failed) -> String {
        let (printer, kept) = Printer::memory(false, false);
        failure(failed, false).print(&printer);
        String::from_utf8(kept.lock().unwrap().clone()).unwrap()
    }
}

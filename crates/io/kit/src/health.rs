//! Whether a component is well, and whether it is ready: named checks, told over HTTP.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Named checks; a clone shows the same ones. Without any, all is well.
#[derive(Clone, Debug, Default)]
pub struct Checks(Arc<Mutex<BTreeMap<&'static str, Option<String>>>>);

/// A check that its owner sets.
#[derive(Clone, Debug)]
pub struct Check {
    name: &'static str,
    checks: Checks,
}

impl Checks {
    /// Adds a check, which fails until it is passed.
    pub fn add(&self, name: &'static str) -> Check {
        let check = Check { name, checks: self.clone() };
        check.fail("not yet");
        check
    }

    /// Whether every check passes, and a line on each of them.
    pub fn report(&self) -> (bool, String) {
        let checks = self.lock();
        let mut text = String::new();
        for (name, failure) in checks.iter() {
            // Writing to a string cannot fail.
            let _ = match failure {
                Some(reason) => writeln!(text, "[-]{name} failed: {reason}"),
                None => writeln!(text, "[+]{name} ok"),
            };
        }
        (checks.values().all(Option::is_none), text)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Check {
    /// All is well.
    pub fn pass(&self) {
        self.checks.lock().insert(self.name, None);
    }

    /// Something is wrong.
    pub fn fail(&self, reason: impl Into<String>) {
        self.checks.lock().insert(self.name, Some(reason.into()));
    }
}

/// What is asked of a component from outside.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Whether it is well; if not, a restart may help.
    pub live: Checks,
    /// Whether it can be used now.
    pub ready: Checks,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_without_checks_is_well() {
        assert_eq!(Checks::default().report(), (true, String::new()));
    }

    #[test]
    fn a_component_is_ready_when_every_check_passes() {
        let checks = Checks::default();
        let (watches, lease) = (checks.add("watches"), checks.add("lease"));
        watches.pass();
        lease.fail("lost");
        assert_eq!(checks.report(), (false, "[-]lease failed: lost\n[+]watches ok\n".to_owned()));
        lease.pass();
        assert!(checks.report().0);
    }
}

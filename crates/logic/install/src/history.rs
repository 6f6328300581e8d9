//! What the next revision of a release does, given those before it.

use liqo_chart::{Release, Status};

/// How many revisions are kept on record.
pub const LONGEST: usize = 10;

/// What is done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next<'a> {
    /// Nothing: it is deployed exactly so.
    Nothing(&'a Release),
    /// It is installed for the first time, or after attempts that led nowhere.
    Install {
        /// The revision to write.
        revision: u32,
    },
    /// What is deployed is changed.
    Upgrade {
        /// The revision to write.
        revision: u32,
        /// What is deployed, and is returned to if the upgrade fails.
        from: &'a Release,
    },
}

impl Next<'_> {
    /// The revision to write, if any.
    pub fn revision(&self) -> Option<u32> {
        match self {
            Self::Nothing(_) => None,
            Self::Install { revision } | Self::Upgrade { revision, .. } => Some(*revision),
        }
    }
}

/// Puts revisions in order.
pub fn sort(history: &mut [Release]) {
    history.sort_by_key(|release| release.version);
}

/// What is deployed: the last revision that came to be, whatever was tried after it.
pub fn deployed(history: &[Release]) -> Option<&Release> {
    history.iter().rev().find(|release| release.info.status == Status::Deployed)
}

/// What is done next; the history is sorted, and `is_wanted` knows what is wanted.
pub fn next(history: &[Release], is_wanted: impl Fn(&Release) -> bool) -> Next<'_> {
    let last = history.last();
    let after_last = last.map_or(1, |last| last.version + 1);
    match (deployed(history), last) {
        (Some(deployed), Some(last)) if deployed.version == last.version && is_wanted(deployed) => {
            Next::Nothing(deployed)
        }
        (Some(from), _) => Next::Upgrade { revision: after_last, from },
        // Nobody finished it; this time goes on where that one stopped.
        (None, Some(last)) if last.info.status == Status::PendingInstall => {
            Next::Install { revision: last.version }
        }
        (None, _) => Next::Install { revision: after_last },
    }
}

/// Revisions that are on record as under way, although somebody else begins anew.
pub fn interrupted(history: &[Release], revision: u32) -> Vec<Release> {
    let pending = [Status::PendingInstall, Status::PendingUpgrade, Status::PendingRollback];
    history
        .iter()
        .filter(|one| one.version != revision && pending.contains(&one.info.status))
        .cloned()
        .collect()
}

/// Revisions that need not be kept any more; what is deployed always is.
pub fn excess(history: &[Release]) -> Vec<u32> {
    let keep = deployed(history).map(|release| release.version);
    let old: Vec<u32> =
        history.iter().map(|one| one.version).filter(|one| Some(*one) != keep).collect();
    let count = history.len().saturating_sub(LONGEST);
    old.into_iter().take(count).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use liqo_chart::Info;
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_first_revision_is_an_installation() {
        assert_eq!(next(&[], |_| true), Next::Install { revision: 1 });
    }

    #[test]
    fn what_is_deployed_as_wanted_stays() {
        let history = history(&[Status::Superseded, Status::Deployed]);

        assert_eq!(next(&history, |_| true), Next::Nothing(&history[1]));
        assert_eq!(next(&history, |_| false), Next::Upgrade { revision: 3, from: &history[1] });
    }

    #[test]
    fn an_installation_that_was_interrupted_goes_on() {
        let started = history(&[Status::PendingInstall]);
        assert_eq!(next(&started, |_| true), Next::Install { revision: 1 });
        assert_eq!(interrupted(&started, 1), []);
        let failed = history(&[Status::Failed]);
        assert_eq!(next(&failed, |_| true), Next::Install { revision: 2 });
        let going = history(&[Status::Uninstalling]);
        assert_eq!(next(&going, |_| true), Next::Install { revision: 2 });
    }

    #[test]
    fn an_upgrade_that_was_interrupted_starts_from_what_is_deployed() {
        let history = history(&[Status::Deployed, Status::PendingUpgrade]);

        assert_eq!(next(&history, |_| true), Next::Upgrade { revision: 3, from: &history[0] });
        assert_eq!(interrupted(&history, 3), [history[1].clone()]);
    }

    #[test]
    fn ten_revisions_are_kept_and_the_deployed_one_among_them() {
        let mut statuses = vec![Status::Deployed];
        statuses.extend([Status::Failed; 11]);

        assert_eq!(excess(&history(&statuses)), [2, 3]);
        assert_eq!(excess(&history(&statuses[..10])), [0; 0]);
    }

    fn history(statuses: &[Status]) -> Vec<Release> {
        let release = |(version, status): (u32, &Status)| Release {
            name: "liqo".to_owned(),
            namespace: "liqo".to_owned(),
            version,
            info: Info {
                first_deployed: Some(Timestamp::UNIX_EPOCH),
                last_deployed: None,
                deleted: None,
                description: String::new(),
                status: *status,
                notes: String::new(),
            },
            chart: Value::Null,
            config: Value::Null,
            manifest: String::new(),
            hooks: vec![],
        };
        (1..).zip(statuses).map(release).collect()
    }
}

//! Facts that are checked one after the other on one lab, which is made when the first is checked.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::Lab;

type Check = Box<dyn FnOnce(&Lab) -> Result<()> + Send>;

/// A topology and the facts that hold on it.
pub struct Scenario {
    topology: String,
    facts: Vec<(&'static str, Check)>,
}

impl Scenario {
    /// A scenario on a preset or a topology file.
    pub fn on(topology: impl Into<String>) -> Self {
        Self { topology: topology.into(), facts: vec![] }
    }

    /// One more fact.
    #[must_use]
    pub fn fact(
        mut self,
        name: &'static str,
        check: impl FnOnce(&Lab) -> Result<()> + Send + 'static,
    ) -> Self {
        self.facts.push((name, Box::new(check)));
        self
    }

    /// Checks all facts, in order; the exit code says whether all hold and nothing is left.
    pub fn run(self) -> ExitCode {
        let mut arguments = Arguments::from_args();
        arguments.test_threads = Some(1);
        let lab: Arc<Mutex<Option<Lab>>> = Arc::default();
        let trials = self
            .facts
            .into_iter()
            .map(|(name, check)| {
                let (lab, topology) = (Arc::clone(&lab), self.topology.clone());
                Trial::test(name, move || verify(&lab, &topology, name, check))
            })
            .collect();
        let conclusion = libtest_mimic::run(&arguments, trials);
        drop(lab.lock().unwrap_or_else(PoisonError::into_inner).take());
        conclusion.exit_code()
    }
}

fn verify(
    lab: &Mutex<Option<Lab>>,
    topology: &str,
    name: &str,
    check: Check,
) -> Result<(), Failed> {
    let mut lab = lab.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = match &*lab {
        Some(lab) => lab,
        None => lab.insert(Lab::up(topology).map_err(|error| format!("{error:#}"))?),
    };
    check(lab).map_err(|error| {
        let evidence = lab.collect(name);
        Failed::from(format!("{error:#}\nevidence: {}", evidence.display()))
    })
}

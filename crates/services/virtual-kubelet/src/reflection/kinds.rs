//! The kinds that are reflected.

use futures::future::BoxFuture;
use liqo_reflection::Reflect;
use liqo_reflection::kinds::ConfigMaps;

use super::{Scope, driver};
use crate::args::WorkerArgs;

/// All kinds, one line each.
pub(crate) fn all(workers: &WorkerArgs) -> Vec<Kind> {
    vec![Kind::of::<ConfigMaps>(workers.configmap)]
}

/// A kind that is reflected.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    run: fn(Scope, u16) -> BoxFuture<'static, ()>,
    workers: u16,
}

impl Kind {
    fn of<R: Reflect>(workers: u16) -> Self {
        Self { run: |scope, workers| Box::pin(driver::run::<R>(scope, workers)), workers }
    }

    /// Reflects the kind between two namespaces; nothing when nobody is to work on it.
    pub(crate) fn start(self, scope: Scope) -> Option<BoxFuture<'static, ()>> {
        (self.workers > 0).then(|| (self.run)(scope, self.workers))
    }
}

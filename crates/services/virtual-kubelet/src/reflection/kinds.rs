//! The kinds that are reflected.

use futures::future::BoxFuture;
use liqo_reflection::Reflect;
use liqo_reflection::kinds::{ConfigMaps, EndpointSlices, Ingresses, Secrets, Services};

use super::{Scope, claims, driver};
use crate::args::WorkerArgs;

/// All kinds, one line each; endpoints only when their addresses mean something over there.
pub(crate) fn all(workers: &WorkerArgs, tells_endpoints: bool) -> Vec<Kind> {
    vec![
        Kind::of::<Services>(workers.service),
        Kind::of::<Ingresses>(workers.ingress),
        Kind::of::<ConfigMaps>(workers.configmap),
        Kind::of::<Secrets>(workers.secret),
        Kind {
            run: |scope, workers| Box::pin(claims::run(scope, workers)),
            workers: workers.persistentvolumeclaim,
        },
        Kind::of::<EndpointSlices>(if tells_endpoints { workers.endpointslice } else { 0 }),
    ]
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

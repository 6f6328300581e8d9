//! Where the amounts of offers come from.

use std::sync::Arc;

use liqo_api::names::ClusterId;
use liqo_sharing::amounts::Amounts;

use crate::error::Error;
use crate::monitor::Monitor;
use crate::plugin::Plugin;

/// Says how much is to be offered to whom.
pub enum Reader {
    /// A percentage of what is free in this cluster.
    Local {
        /// What is free.
        monitor: Arc<Monitor>,
        /// The percentage.
        percentage: u8,
    },
    /// What a program of the user's says.
    Plugin(Arc<Plugin>),
}

impl Reader {
    /// How much is to be offered to a cluster.
    pub async fn read(&self, consumer: &ClusterId) -> Result<Amounts, Error> {
        match self {
            Self::Local { monitor, percentage } => Ok(monitor.free(consumer).share(*percentage)),
            Self::Plugin(plugin) => plugin.read(consumer).await,
        }
    }

    /// Notes that a cluster is not served any more.
    pub async fn forget(&self, consumer: &ClusterId) {
        match self {
            // What it counts is the same for all.
            Self::Local { .. } => {}
            Self::Plugin(plugin) => plugin.forget(consumer).await,
        }
    }
}

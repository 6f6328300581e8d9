//! Metrics: registries that are values, and their text.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry};

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of a component; a clone shows the same ones.
///
/// Names are given without a prefix and without `_total`: the registry adds the first, the text
/// format the second.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Default for Metrics {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Registry::with_prefix("liqo"))))
    }
}

impl Metrics {
    /// Shows a metric, and returns it.
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        self.lock().register(name, help, metric.clone());
        metric
    }

    /// All metrics as text.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.lock())?;
        Ok(text)
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A counter whose name has no `_total`, for names that were published without.
#[derive(Clone, Debug, Default)]
pub struct BareCounter(Counter<u64>);

impl BareCounter {
    /// Counts one more.
    pub fn inc(&self) {
        self.0.inc();
    }
}

impl TypedMetric for BareCounter {
    // The text format has no counters without the suffix.
    const TYPE: MetricType = MetricType::Unknown;
}

impl EncodeMetric for BareCounter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::family::Family;

    use super::*;

    #[test]
    fn names_get_prefix_and_suffix() {
        let metrics = Metrics::default();
        let counter =
            metrics.register("peer_receive_bytes", "What came in", Counter::<u64>::default());
        counter.inc_by(7);
        let text = metrics.text().unwrap();
        assert!(text.contains("\nliqo_peer_receive_bytes_total 7\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn a_bare_counter_keeps_its_name() {
        let metrics = Metrics::default();
        let family = Family::<[(String, String); 1], BareCounter>::default();
        let family = metrics.register("item_counter", "Items", family);
        family.get_or_create(&[("kind".to_owned(), "Pod".to_owned())]).inc();
        let text = metrics.text().unwrap();
        assert!(text.contains("\nliqo_item_counter{kind=\"Pod\"} 1\n"), "{text}");
    }

    #[test]
    fn registries_share_nothing() {
        let (one, other) = (Metrics::default(), Metrics::default());
        one.register("a", "A", Counter::<u64>::default());
        assert!(!other.text().unwrap().contains("liqo_a"));
    }
}

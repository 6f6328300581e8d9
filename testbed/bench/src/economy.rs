//! What is asked of API servers: requests, bytes, events, CPU time.

use std::collections::BTreeMap;

use anyhow::Result;
use liqo_testkit::Lab;

use crate::crossed;
use crate::processes::Processes;

const CLUSTERS: [&str; 2] = ["rome", "milan"];

/// Counts by name.
type Counts = BTreeMap<String, u64>;

/// What had been spent at some moment.
pub struct Economy {
    /// Requests by cluster, verb and resource.
    requests: Counts,
    /// CPU time of the two API servers, in ms.
    servers: u64,
    /// CPU time of Liqo by cluster and component, in ms.
    liqo: Counts,
    /// Bytes between the clusters.
    bytes: u64,
    /// Events there are, in both clusters.
    events: u64,
    /// Those of them that Liqo wrote.
    own_events: u64,
}

impl Economy {
    /// What has been spent until now.
    pub fn of(lab: &Lab) -> Result<Self> {
        let mut now = Self {
            requests: BTreeMap::new(),
            servers: 0,
            liqo: BTreeMap::new(),
            bytes: crossed(lab)?,
            events: 0,
            own_events: 0,
        };
        for cluster in CLUSTERS {
            for (key, count) in requests(&lab.kubectl(cluster, "get --raw /metrics")?) {
                *now.requests.entry(format!("{cluster} {key}")).or_default() += count;
            }
            now.servers +=
                Processes::called("/engine/kube-apiserver", lab.prefix(), cluster)?.cpu();
            for (component, time) in Processes::of(lab.prefix(), cluster)?.each() {
                *now.liqo.entry(format!("{cluster} {component}")).or_default() += time;
            }
            let by = "custom-columns=OLD:.source.component,NEW:.reportingComponent";
            let words = format!("get events -n bench --no-headers -o {by}");
            let events = lab.kubectl(cluster, &words)?;
            now.events += u64::try_from(events.lines().count())?;
            let own = events.lines().filter(|by| by.contains("liqo")).count();
            now.own_events += u64::try_from(own)?;
        }
        Ok(now)
    }

    /// What has been spent since another moment.
    pub fn since(&self, before: &Self) -> Self {
        let since = |now: &Counts, before: &Counts| -> Counts {
            let was = |key: &str| before.get(key).copied().unwrap_or_default();
            let grown =
                now.iter().map(|(key, count)| (key.clone(), count.saturating_sub(was(key))));
            grown.filter(|(_, count)| *count > 0).collect()
        };
        Self {
            requests: since(&self.requests, &before.requests),
            servers: self.servers - before.servers,
            liqo: since(&self.liqo, &before.liqo),
            bytes: self.bytes - before.bytes,
            events: self.events.saturating_sub(before.events),
            own_events: self.own_events.saturating_sub(before.own_events),
        }
    }

    /// The CPU time of the two API servers, in seconds.
    pub fn servers(&self) -> f64 {
        per(self.servers, 1000)
    }

    /// As lines, for so many pods.
    pub fn lines(&self, pods: usize) -> Vec<String> {
        let each = |whole: u64| per(whole, pods);
        let mut often: Vec<_> =
            self.requests.iter().filter(|(_, count)| each(**count) >= 0.05).collect();
        often.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let mut lines = vec![
            format!("  API servers              {:>8.1} s of CPU", self.servers()),
            format!(
                "  Liqo                     {:>8.1} s of CPU",
                per(self.liqo.values().sum(), 1000)
            ),
        ];
        let mut busy: Vec<_> = self.liqo.iter().filter(|(_, time)| **time >= 100).collect();
        busy.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
        lines.extend(
            busy.iter().map(|(key, time)| format!("    {key:<44} {:>6.1} s", per(**time, 1000))),
        );
        lines.extend([
            format!("  across the wire          {:>8.1} kB a pod", each(self.bytes) / 1e3),
            format!(
                "  events                   {:>8.1} a pod ({:.2} of them Liqo's)",
                each(self.events),
                each(self.own_events)
            ),
            format!("  requests                 {:>8.1} a pod", each(self.requests.values().sum())),
        ]);
        lines.extend(
            often.iter().map(|(key, count)| format!("    {key:<44} {:>6.2} a pod", each(**count))),
        );
        lines
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with one or two digits")]
fn per(whole: u64, parts: usize) -> f64 {
    whole as f64 / parts as f64
}

/// How often each verb was used on each resource.
fn requests(metrics: &str) -> Counts {
    let mut found = BTreeMap::new();
    for line in metrics.lines() {
        let Some((labels, count)) =
            line.strip_prefix("apiserver_request_total{").and_then(|rest| rest.split_once("} "))
        else {
            continue;
        };
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            rest.split('"').next()
        };
        let verb = label("verb").unwrap_or_default();
        let resource = label("resource").unwrap_or_default();
        let part = label("subresource").filter(|part| !part.is_empty());
        let resource =
            part.map_or_else(|| resource.to_owned(), |part| format!("{resource}/{part}"));
        let count = count.trim().parse::<u64>().unwrap_or_default();
        if !resource.is_empty() && resource != "leases" {
            *found.entry(format!("{verb} {resource}")).or_default() += count;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::requests;

    #[test]
    fn requests_are_counted_by_verb_and_resource() {
        let metrics = "\
# HELP apiserver_request_total …
apiserver_request_total{code=\"200\",resource=\"pods\",subresource=\"\",verb=\"GET\"} 3
apiserver_request_total{code=\"404\",resource=\"pods\",subresource=\"\",verb=\"GET\"} 2
apiserver_request_total{code=\"200\",resource=\"pods\",subresource=\"status\",verb=\"PATCH\"} 1
apiserver_request_total{code=\"200\",resource=\"leases\",subresource=\"\",verb=\"PUT\"} 9
";
        let counted: Vec<_> = requests(metrics).into_iter().collect();
        assert_eq!(counted, [("GET pods".to_owned(), 5), ("PATCH pods/status".to_owned(), 1)]);
    }
}

//! The record of a release, as Helm keeps it in a Secret.
//!
//! ```text
//! Secret sh.helm.release.v1.<name>.v<revision>, type helm.sh/release.v1
//!   data.release = base64( base64( gzip( JSON )))      the outer one is that of every Secret
//! ```

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Chart, Document, Error, Hook, Metadata, Rendered, Target, Values, documents, values};

/// Type of the Secret.
const TYPE: &str = "helm.sh/release.v1";
/// No record is larger: a Secret holds a mebibyte, and compression gains less than this.
const LARGEST: u64 = 64 << 20;

/// How a release is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Nobody knows.
    Unknown,
    /// It is there.
    Deployed,
    /// It was there, and is kept on record.
    Uninstalled,
    /// A later revision took its place.
    Superseded,
    /// It did not come to be.
    Failed,
    /// It is going.
    Uninstalling,
    /// It is coming.
    PendingInstall,
    /// It is changing.
    PendingUpgrade,
    /// It is changing back.
    PendingRollback,
}

/// One revision of a release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Release {
    /// Name of the release.
    pub name: String,
    /// What happened to it.
    pub info: Info,
    /// The chart it was made from; Helm writes it, and reads the default values out of it.
    #[serde(default)]
    pub chart: Value,
    /// What the user said of the values.
    #[serde(default)]
    pub config: Value,
    /// All objects as one text.
    #[serde(default)]
    pub manifest: String,
    /// Objects that belong to moments.
    #[serde(default)]
    pub hooks: Vec<Value>,
    /// The revision.
    pub version: u32,
    /// Namespace of the release.
    pub namespace: String,
}

/// What happened to a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// When its first revision was installed.
    #[serde(default, with = "moment")]
    pub first_deployed: Option<Timestamp>,
    /// When this revision was installed.
    #[serde(default, with = "moment")]
    pub last_deployed: Option<Timestamp>,
    /// When it was uninstalled.
    #[serde(default, with = "moment")]
    pub deleted: Option<Timestamp>,
    /// What happened, in words.
    #[serde(default)]
    pub description: String,
    /// How it is.
    pub status: Status,
    /// What the user was told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
}

/// What becomes a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the Secret.
    pub name: String,
    /// Namespace of the Secret.
    pub namespace: String,
    /// Labels of the Secret, by which Helm finds it.
    pub labels: BTreeMap<String, String>,
    /// Type of the Secret.
    pub kind: &'static str,
    /// Value of the Secret's key `release`, not yet encoded as the values of Secrets are.
    pub payload: String,
}

impl Release {
    /// The record of what is about to be installed, or was.
    pub fn new(
        chart: &Chart,
        values: &Values,
        rendered: &Rendered,
        target: &Target,
        status: Status,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let description = match status {
            Status::Deployed if target.is_upgrade => "Upgrade complete",
            Status::Deployed => "Install complete",
            Status::PendingUpgrade => "Preparing upgrade",
            Status::PendingRollback => "Preparing rollback",
            Status::Uninstalling => "Deletion in progress",
            Status::Uninstalled => "Uninstallation complete",
            Status::Superseded => "Superseded by a later revision",
            Status::Failed => "Not all objects could be applied",
            Status::Unknown | Status::PendingInstall => "Initial install underway",
        };
        Ok(Self {
            name: target.release.clone(),
            namespace: target.namespace.clone(),
            version: target.revision,
            info: Info {
                first_deployed: Some(now),
                last_deployed: Some(now),
                deleted: None,
                description: description.to_owned(),
                status,
                notes: rendered.notes.clone(),
            },
            chart: chart_value(chart)?,
            config: values.given().clone(),
            manifest: rendered.manifest(),
            hooks: rendered.hooks.iter().map(hook_value).collect(),
        })
    }

    /// What the chart said of itself.
    pub fn metadata(&self) -> Option<Metadata> {
        serde_json::from_value(self.chart.get("metadata")?.clone()).ok()
    }

    /// The objects of the release, in the order of their installation.
    pub fn documents(&self) -> Result<Vec<Document>, Error> {
        documents(&self.manifest)
    }

    /// The hooks of an event, in the order in which they are applied.
    pub fn hooks_of(&self, event: &str) -> Result<Vec<Hook>, Error> {
        let mut hooks = vec![];
        for hook in &self.hooks {
            let text = |name: &str| hook.get(name).and_then(Value::as_str).unwrap_or_default();
            let texts = |name: &str| -> Vec<String> {
                let list = hook.get(name).and_then(Value::as_array).into_iter().flatten();
                list.filter_map(Value::as_str).map(str::to_owned).collect()
            };
            let events = texts("events");
            if !events.iter().any(|one| one == event) {
                continue;
            }
            let weight = hook.get("weight").and_then(Value::as_i64).unwrap_or_default();
            for mut document in documents(text("manifest"))? {
                text("path").clone_into(&mut document.source);
                let (events, delete_policies) = (events.clone(), texts("delete_policies"));
                hooks.push(Hook { document, events, weight, delete_policies });
            }
        }
        hooks.sort_by_key(|hook| hook.weight);
        Ok(hooks)
    }

    /// All values it was installed with: the chart's own, and over them what the user said.
    pub fn values(&self) -> Value {
        let mut all = self.chart.get("values").cloned().unwrap_or_default();
        values::lay_over(&mut all, self.config.clone());
        all
    }

    /// Writes the record.
    pub fn encode(&self, now: Timestamp) -> Result<Record, Error> {
        let json = serde_json::to_vec(self).map_err(|error| unfit("written", error))?;
        let mut zipped = GzEncoder::new(vec![], Compression::best());
        zipped.write_all(&json).map_err(|error| unfit("compressed", error))?;
        let zipped = zipped.finish().map_err(|error| unfit("compressed", error))?;
        let status = serde_json::to_value(self.info.status).ok();
        let status = status.as_ref().and_then(Value::as_str).unwrap_or("unknown").to_owned();
        let labels = [
            ("name", self.name.clone()),
            ("owner", "helm".to_owned()),
            ("status", status),
            ("version", self.version.to_string()),
            ("modifiedAt", now.as_second().to_string()),
        ];
        Ok(Record {
            name: format!("sh.helm.release.v1.{}.v{}", self.name, self.version),
            namespace: self.namespace.clone(),
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            kind: TYPE,
            payload: STANDARD.encode(zipped),
        })
    }

    /// Reads the value of a Secret's key `release`, once decoded as the values of Secrets are.
    pub fn decode(payload: &[u8]) -> Result<Self, Error> {
        let bytes =
            STANDARD.decode(payload.trim_ascii()).map_err(|error| unfit("decoded", error))?;
        // Old records are not compressed.
        let json = if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut json = vec![];
            let mut reader = GzDecoder::new(bytes.as_slice()).take(LARGEST);
            reader.read_to_end(&mut json).map_err(|error| unfit("decompressed", error))?;
            json
        } else {
            bytes
        };
        serde_json::from_slice(&json).map_err(|error| unfit("read", error))
    }
}

fn unfit(step: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Record(step, Box::new(error))
}

fn chart_value(chart: &Chart) -> Result<Value, Error> {
    let file = |(path, text): (&str, &str)| json!({"name": path, "data": STANDARD.encode(text)});
    let schema = chart.file("values.schema.json").map(|text| STANDARD.encode(text));
    Ok(json!({
        "metadata": chart.metadata,
        "lock": null,
        "templates": chart.folder("templates").map(file).collect::<Vec<_>>(),
        "values": chart.defaults()?,
        "schema": schema,
        "files": chart.loose_files().map(file).collect::<Vec<_>>(),
    }))
}

fn hook_value(hook: &Hook) -> Value {
    let Hook { document, events, weight, delete_policies } = hook;
    let Document { source, text, .. } = document;
    json!({
        "name": document.name(),
        "kind": document.kind(),
        "path": source,
        "manifest": text,
        "events": events,
        "last_run": {"started_at": "", "completed_at": "", "phase": ""},
        "weight": weight,
        "delete_policies": delete_policies,
    })
}

/// Moments as Helm writes them: RFC 3339, and nothing for none.
mod moment {
    use jiff::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    #[expect(clippy::ref_option, reason = "serde hands a reference to the field")]
    pub fn serialize<S: Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&at.as_ref().map(ToString::to_string).unwrap_or_default())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Overrides, render};

    #[test]
    fn a_record_reads_back_as_its_release() {
        let release = release();

        let record = release.encode(now()).unwrap();

        assert_eq!(Release::decode(record.payload.as_bytes()).unwrap(), release);
        assert_eq!(record.name, "sh.helm.release.v1.liqo.v1");
        assert_eq!(record.kind, "helm.sh/release.v1");
        let labels: Vec<String> =
            record.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            labels,
            ["modifiedAt=1700000000", "name=liqo", "owner=helm", "status=deployed", "version=1"]
        );
    }

    #[test]
    fn a_release_gives_back_the_objects_and_hooks_it_was_made_of() {
        let (release, rendered) = (release(), rendered());

        assert_eq!(release.documents().unwrap(), rendered.documents);
        for event in ["pre-install", "post-upgrade", "pre-delete", "test"] {
            let hooks = release.hooks_of(event).unwrap();
            let expected: Vec<Hook> = rendered.hooks_of(event).into_iter().cloned().collect();
            assert_eq!(hooks, expected, "{event}");
        }
    }

    #[test]
    fn a_record_fits_into_a_secret() {
        assert!(release().encode(now()).unwrap().payload.len() < 200_000);
    }

    #[test]
    fn a_release_knows_its_chart_and_what_the_user_said() {
        let release = release();

        assert_eq!(release.metadata().unwrap().name, "liqo");
        assert_eq!(release.config.pointer("/discovery/config/clusterName"), Some(&json!("rome")));
        assert_eq!(release.chart.pointer("/values/gateway/replicas"), Some(&json!(1)));
        assert_eq!(&release.values(), chart_and_values().1.all());
    }

    #[test]
    fn a_damaged_record_is_told_from_a_whole_one() {
        for payload in ["!", "aGVsbG8=", "H4sIAAAA"] {
            assert!(matches!(Release::decode(payload.as_bytes()), Err(Error::Record(..))));
        }
    }

    fn release() -> Release {
        let (chart, values) = chart_and_values();
        let target = Target::new("v1.34.4");
        Release::new(&chart, &values, &rendered(), &target, Status::Deployed, now()).unwrap()
    }

    fn rendered() -> Rendered {
        let (chart, values) = chart_and_values();
        render(&chart, &values, &Target::new("v1.34.4")).unwrap()
    }

    fn chart_and_values() -> (Chart, Values) {
        let chart = Chart::embedded().unwrap();
        let id = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
        let mut overrides = Overrides::default();
        overrides.set("discovery.config.clusterName=rome").unwrap();
        overrides.set(&format!("discovery.config.clusterIDOverride={id}")).unwrap();
        let values = Values::new(&chart, &overrides).unwrap();
        (chart, values)
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap()
    }
}

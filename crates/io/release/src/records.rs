//! Records of a release: Secrets, one per revision.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::ObjectMeta;
use liqo_api::keys::manager;
use liqo_chart::{Record, Release, Status};
use liqo_install::history;

use crate::{Engine, Error, RELEASE};

/// Key of a record in its Secret.
const KEY: &str = "release";

impl Engine<'_> {
    /// All revisions on record, the oldest first.
    pub async fn history(&self) -> Result<Vec<Release>, Error> {
        let selector = ListParams::default().labels(&format!("owner=helm,name={RELEASE}"));
        let list = self.secrets().list(&selector).await;
        let list = list.map_err(Error::request("read the records of the installation"))?;
        let mut history = vec![];
        for secret in list {
            let payload = secret.data.unwrap_or_default().remove(KEY);
            history.push(Release::decode(&payload.unwrap_or_default().0)?);
        }
        history::sort(&mut history);
        Ok(history)
    }

    /// Puts a revision on record.
    pub(crate) async fn record(&self, release: &Release) -> Result<(), Error> {
        let record = release.encode(Timestamp::now())?;
        let secret = secret(&record);
        let params = PatchParams::apply(manager::LIQOCTL).force();
        let written = self.secrets().patch(&record.name, &params, &Patch::Apply(&secret)).await;
        written.map(drop).map_err(Error::request(format!("write the record {}", record.name)))
    }

    /// Puts a revision on record with another status.
    pub(crate) async fn record_as(
        &self,
        release: &Release,
        status: Status,
        description: &str,
    ) -> Result<(), Error> {
        let mut release = release.clone();
        release.info.status = status;
        description.clone_into(&mut release.info.description);
        self.record(&release).await
    }

    /// Takes revisions off the record.
    pub(crate) async fn forget(&self, revisions: &[u32]) -> Result<(), Error> {
        for revision in revisions {
            let name = format!("sh.helm.release.v1.{RELEASE}.v{revision}");
            match self.secrets().delete(&name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => {
                    other.map(drop).map_err(Error::request(format!("delete the record {name}")))?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn secret(record: &Record) -> Secret {
    let data = [(KEY.to_owned(), ByteString(record.payload.clone().into_bytes()))];
    Secret {
        metadata: ObjectMeta {
            name: Some(record.name.clone()),
            namespace: Some(record.namespace.clone()),
            labels: Some(record.labels.clone()),
            ..ObjectMeta::default()
        },
        type_: Some(record.kind.to_owned()),
        data: Some(BTreeMap::from(data)),
        ..Secret::default()
    }
}

//! Containers that are added to a pod while it runs, as `kubectl debug` does.
//!
//! Of a ShadowPod only metadata is watched, so whether something is missing is seen at the pod there;
//! what the ShadowPod has is read when something is, which is rare.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use liqo_api::keys::{event, manager};
use liqo_api::virtualkubelet::ShadowPod;
use liqo_kit::retry::or_gone;
use liqo_pod_offloading::lean::{HomePod, trim_shadow};
use liqo_pod_offloading::spec;
use liqo_replication::carried::Carried;
use serde_json::json;
use tokio::time::Instant;
use tracing::info;

use super::hands::said_no;
use super::side::Side;
use super::{Error, Pods, Scene};
use crate::reflection::link::ask;

impl Pods {
    /// Adds to a ShadowPod the containers that its pod has got since it was sent.
    pub(super) async fn add_containers(
        &self,
        scene: &Scene<'_>,
        home: &HomePod,
        side: &Side,
    ) -> Result<(), Error> {
        let shadow = scene.shadow.as_ref().and_then(|shadow| shadow.uid.clone());
        let this = (shadow, home.added().map(str::to_owned).collect());
        if self.with(scene.key, |memory| memory.added.as_ref() == Some(&this)) {
            return Ok(());
        }
        if self.write_containers(scene, home, side).await? {
            self.with(scene.key, |memory| memory.added = Some(this));
        }
        Ok(())
    }

    /// Writes them, if need be; false when what was seen is not there any more.
    async fn write_containers(
        &self,
        scene: &Scene<'_>,
        home: &HomePod,
        side: &Side,
    ) -> Result<bool, Error> {
        let (name, peer) = (&scene.key.name, &self.ground.peer);
        let pods = self.here::<Carried<Pod>>(home);
        let pod = ask(|| format!("read pod {name}"), pods.get_opt(name)).await?;
        let shadows = side.api::<Carried<ShadowPod>>();
        let what = || format!("read ShadowPod {name} in cluster {peer}");
        let shadow = ask(what, shadows.get_opt(name)).await?;
        let (Some(pod), Some(shadow)) = (pod, shadow) else { return Ok(false) };
        if pod.metadata.uid != home.metadata.uid || !side.place.is_ours(&shadow.metadata) {
            return Ok(false);
        }
        let account = home.spec.service_account_name.as_deref().unwrap_or("default");
        let translator = &self.ground.addresses.translator;
        let access = self.ground.entrance.access(account, translator, side).await?;
        let want = spec::added(&pod.spec, &shadow.spec["pod"], &side.place, &access);
        let Some(want) = want else { return Ok(true) };
        // The version guards what was added since.
        let change = json!({
            "metadata": { "uid": shadow.uid(), "resourceVersion": shadow.resource_version() },
            "spec": { "pod": { "ephemeralContainers": want } },
        });
        let params = PatchParams {
            field_manager: Some(manager::REFLECTION.to_owned()),
            ..PatchParams::default()
        };
        let shadows = side.api::<PartialObjectMeta<ShadowPod>>();
        let patch = Patch::Merge(change);
        let what = || format!("add containers to ShadowPod {name} in cluster {peer}");
        let request = async { or_gone(shadows.patch_metadata(name, &params, &patch).await) };
        match ask(what, request).await {
            Ok(Some(shadow)) => {
                info!(pod = %scene.key, cluster = peer, "Containers added");
                let mut metadata = shadow.metadata;
                trim_shadow(&mut metadata);
                self.with(scene.key, |memory| memory.shadow.write(metadata, Instant::now()));
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(refusal) => {
                // It would say the same again.
                let Some(why) = said_no(&refusal) else { return Err(refusal.into()) };
                self.warn(home, why).await;
                Ok(true)
            }
        }
    }

    /// Says why the other cluster does not add containers to a pod.
    pub(super) async fn warn(&self, home: &HomePod, why: &str) {
        let message = format!("Cluster {} adds no container to it: {why}", self.ground.peer);
        self.tell(home, true, event::FAILED_REFLECTION, &message).await;
    }
}

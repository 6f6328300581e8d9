//! From a request of the API server to its answer.

use std::fmt::Debug;

use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use kube::Resource;
use kube::core::TypeMeta;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use liqo_admission::Verdict;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tracing::{debug, info, warn};

/// What is answered.
pub(super) enum Answer<K> {
    /// Yes or no.
    Verdict(Verdict),
    /// Yes, as this.
    Changed(Box<K>),
    /// It could not be found out; the code says whose fault that is.
    Unknown(u16, String),
}

/// What an API server asks. The type of this name that kube has reads everything twice, because it takes
/// the kind of the review from among its other fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "K: DeserializeOwned")]
struct Review<K: Resource> {
    api_version: String,
    kind: String,
    request: Option<AdmissionRequest<K>>,
}

impl<K: Resource> Review<K> {
    fn into_request(self) -> Option<AdmissionRequest<K>> {
        let types = TypeMeta { api_version: self.api_version, kind: self.kind };
        self.request.map(|request| AdmissionRequest { types, ..request })
    }
}

/// Answers a review with what `judge` says.
pub(super) async fn answer<K, F>(
    body: Bytes,
    judge: impl FnOnce(AdmissionRequest<K>) -> F,
) -> Response
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    F: Future<Output = Answer<K>>,
{
    let request = match serde_json::from_slice::<Review<K>>(&body) {
        Ok(review) => review.into_request(),
        Err(error) => {
            warn!(kind = %K::kind(&()), %error, "Review not understood");
            return (StatusCode::BAD_REQUEST, format!("not a review: {error}\n")).into_response();
        }
    };
    let Some(request) = request else {
        return (StatusCode::BAD_REQUEST, "a review without a request\n").into_response();
    };
    let mut response = AdmissionResponse::from(&request);
    let subject = format!(
        "{} {}/{}",
        K::kind(&()),
        request.namespace.clone().unwrap_or_default(),
        request.name
    );
    let before = request.object.clone();
    let response = match judge(request).await {
        Answer::Verdict(Verdict::Allowed) => response,
        Answer::Verdict(Verdict::Warned(text)) => {
            response.warnings = Some(vec![text]);
            response
        }
        Answer::Verdict(Verdict::Denied(reason)) => {
            info!(subject, reason, "Denied");
            response.deny(reason)
        }
        Answer::Changed(after) => patched(response, before.as_ref(), &after),
        Answer::Unknown(code, reason) => {
            warn!(subject, reason, "Not judged");
            response = response.deny(reason);
            response.result.code = code;
            response
        }
    };
    debug!(subject, allowed = response.allowed, "Reviewed");
    match serde_json::to_vec(&response.into_review()) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn patched<K: Serialize>(
    response: AdmissionResponse,
    before: Option<&K>,
    after: &K,
) -> AdmissionResponse {
    let values = (serde_json::to_value(before), serde_json::to_value(after));
    let (Ok(before), Ok(after)) = values else {
        return AdmissionResponse::invalid("the object cannot be expressed in JSON");
    };
    let patch = json_patch::diff(&before, &after);
    if patch.0.is_empty() {
        return response;
    }
    response.with_patch(patch).unwrap_or_else(AdmissionResponse::invalid)
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use liqo_api::offloading::NamespaceOffloading;
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn a_change_is_answered_as_a_patch_of_just_that() {
        let (code, answer) = review(|mut object| {
            object.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
            Answer::Changed(Box::new(object))
        })
        .await;
        assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)));
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        let patch: Vec<u8> = serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(
            patch,
            json!([{ "op": "add", "path": "/metadata/labels", "value": { "a": "b" } }])
        );
    }

    #[tokio::test]
    async fn nothing_changed_is_answered_without_a_patch() {
        let (_, answer) = review(|object| Answer::Changed(Box::new(object))).await;
        assert_eq!(answer["response"]["allowed"], true);
        assert_eq!(answer["response"]["patch"], Value::Null);
    }

    #[tokio::test]
    async fn refusals_and_warnings_reach_the_user() {
        let denied = |_| Answer::Verdict(Verdict::Denied("no".to_owned()));
        let (_, answer) = review(denied).await;
        assert_eq!(answer["response"]["allowed"], false);
        assert_eq!(answer["response"]["status"]["message"], "no");
        let warned = |_| Answer::Verdict(Verdict::Warned("careful".to_owned()));
        let (_, answer) = review(warned).await;
        assert_eq!(answer["response"]["warnings"], json!(["careful"]));
        let (_, answer) = review(|_| Answer::Unknown(500, "lost".to_owned())).await;
        assert_eq!(answer["response"]["status"]["code"], 500);
    }

    #[tokio::test]
    async fn what_is_no_review_is_refused() {
        let judge = async |_: AdmissionRequest<NamespaceOffloading>| -> Answer<_> {
            Answer::Verdict(Verdict::Allowed)
        };
        let response = answer(Bytes::from_static(b"hello"), judge).await;
        assert_eq!(response.status(), 400);
    }

    async fn review(
        judge: impl FnOnce(NamespaceOffloading) -> Answer<NamespaceOffloading>,
    ) -> (u16, Value) {
        let object = json!({
            "apiVersion": "offloading.liqo.io/v1alpha1",
            "kind": "NamespaceOffloading",
            "metadata": { "name": "offloading", "namespace": "shop" },
            "spec": {},
        });
        let kind = json!({ "group": "offloading.liqo.io", "version": "v1alpha1", "kind": "NamespaceOffloading" });
        let resource = json!({ "group": "offloading.liqo.io", "version": "v1alpha1", "resource": "namespaceoffloadings" });
        let body = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "u", "kind": kind, "resource": resource, "name": "offloading",
                "namespace": "shop", "operation": "CREATE", "userInfo": {}, "object": object,
            },
        });
        let judge =
            async |request: AdmissionRequest<NamespaceOffloading>| judge(request.object.unwrap());
        let response = answer(Bytes::from(body.to_string()), judge).await;
        let code = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap())
    }
}

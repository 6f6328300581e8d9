//! The tokens of service accounts: which a pod needs, where they lie, and when new ones are due.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::keys::{annotation, label, object};
use liqo_api::names::label_value;
use liqo_reflection::Place;
use sha2::{Digest as _, Sha256};

use crate::lean::HomePod;

/// How long a token is valid unless a volume says otherwise, in seconds.
const LIFESPAN: i64 = 3600;
/// New tokens are due when this part of their time is left, in hundredths.
const LEFT: i64 = 20;
/// Pods that were made together do not ask together: within so many seconds.
const SPREAD: u64 = 30;

/// A token that a volume of a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The volume.
    pub volume: String,
    /// The file in it.
    pub path: String,
    /// For whom the token is meant; for the API server unless it is said.
    pub audience: Option<String>,
    /// How long it is to be valid.
    pub seconds: Option<i64>,
}

impl Token {
    /// Where it lies in the Secret.
    pub fn key(&self) -> String {
        key(&self.volume, &self.path)
    }

    /// What the API server is asked for.
    pub fn request(&self, pod: &ObjectMeta) -> TokenRequest {
        TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: self.audience.clone().map(|audience| vec![audience]),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: pod.name.clone(),
                    uid: pod.uid.clone(),
                }),
                expiration_seconds: Some(self.seconds.unwrap_or(LIFESPAN)),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        }
    }

    /// The token, if an answer has one.
    pub fn issued(self, answer: TokenRequest) -> Option<Issued> {
        let status = answer.status?;
        let granted = answer.spec.and_then(|spec| spec.expiration_seconds);
        Some(Issued {
            seconds: granted.or(self.seconds).unwrap_or(LIFESPAN),
            expiration: status.expiration_timestamp?.0,
            text: status.token?,
            token: self,
        })
    }
}

/// A token that an API server has just made.
#[derive(Clone)]
pub struct Issued {
    token: Token,
    text: String,
    expiration: Timestamp,
    /// How long it is valid, which need not be what was asked for.
    seconds: i64,
}

impl Issued {
    /// How far the clock here is ahead of the one of the API server.
    pub fn ahead(&self, now: Timestamp) -> SignedDuration {
        now.duration_since(self.before_end(self.seconds))
    }

    /// When another one is to take its place, by the clock of the API server.
    fn renewal(&self) -> Timestamp {
        self.before_end(self.seconds.saturating_mul(LEFT) / 100)
    }

    fn before_end(&self, seconds: i64) -> Timestamp {
        let time = self.expiration.checked_sub(SignedDuration::from_secs(seconds));
        time.unwrap_or(self.expiration)
    }
}

/// Where the token of a volume lies in the Secret of a pod.
pub fn key(volume: &str, path: &str) -> String {
    let digest: String = Sha256::digest(path).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{volume}-{}", digest.chars().take(6).collect::<String>())
}

/// Selects the Secrets of all pods of ours.
pub fn selector(place: &Place) -> String {
    format!("{},{}", place.selector(), label::SERVICE_ACCOUNT_POD)
}

/// What to do about the tokens of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Tokens are asked for, and put into the Secret.
    Now,
    /// The same, after this long.
    Later(Duration),
    /// The Secret goes.
    Remove,
    /// Nothing.
    Nothing,
}

/// When tokens are due for a pod, given its Secret in the other cluster; the time is that of the API
/// server that makes them.
pub fn due(pod: Option<&HomePod>, secret: Option<&ObjectMeta>, now: Timestamp) -> Due {
    let Some(pod) = pod else {
        return if secret.is_some_and(|secret| secret.deletion_timestamp.is_none()) {
            Due::Remove
        } else {
            Due::Nothing
        };
    };
    if pod.tokens().next().is_none() {
        return Due::Nothing;
    }
    let phase = pod.status.value().get("phase").cloned();
    let is_over = phase.is_some_and(|phase| phase == "Succeeded" || phase == "Failed");
    if is_over || pod.is_leaving() {
        return Due::Nothing;
    }
    let Some(secret) = secret else { return Due::Now };
    let said = |key: &str| secret.annotations.as_ref()?.get(key);
    if said(annotation::SERVICE_ACCOUNT_POD_UID) != pod.metadata.uid.as_ref() {
        return Due::Now;
    }
    let renewal = said(annotation::SERVICE_ACCOUNT_RENEWAL);
    let Some(renewal) = renewal.and_then(|text| text.parse::<Timestamp>().ok()) else {
        return Due::Now;
    };
    let spread = spread(pod.metadata.uid.as_deref().unwrap_or_default());
    match Duration::try_from(renewal.duration_since(now).saturating_add(spread)) {
        Ok(wait) if !wait.is_zero() => Due::Later(wait),
        Ok(_) | Err(_) => Due::Now,
    }
}

/// A little time, different for every pod and always the same for one.
fn spread(uid: &str) -> SignedDuration {
    let number = uid.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    SignedDuration::from_secs(i64::try_from(number % SPREAD).unwrap_or_default())
}

/// The Secret with the tokens of a pod; those that end first say when.
pub fn secret(pod: &HomePod, place: &Place, tokens: &[Issued]) -> Secret {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let mut metadata = place.metadata(&ObjectMeta::default(), object::token_secret(&name));
    let account = pod.spec.service_account_name.as_deref().unwrap_or_default();
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(label::SERVICE_ACCOUNT_POD.to_owned(), label_value(&name));
    labels.insert(label::SERVICE_ACCOUNT.to_owned(), label_value(account));
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let first = |of: fn(&Issued) -> Timestamp| {
        let time = tokens.iter().map(of).min().unwrap_or(Timestamp::MAX);
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    };
    metadata.annotations = Some(
        [
            (annotation::SERVICE_ACCOUNT_POD_UID.to_owned(), uid),
            (annotation::SERVICE_ACCOUNT_EXPIRATION.to_owned(), first(|token| token.expiration)),
            (annotation::SERVICE_ACCOUNT_RENEWAL.to_owned(), first(Issued::renewal)),
        ]
        .into(),
    );
    let data = tokens.iter().map(|it| (it.token.key(), ByteString(it.text.clone().into())));
    Secret {
        metadata,
        data: Some(data.collect()),
        immutable: Some(false),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

/// The same Secret for an API server that has none of this name, with its tokens as they are: as `data`
/// they would be a third longer.
pub fn in_plain(secret: &Secret) -> Secret {
    let text = |(key, bytes): (&String, &ByteString)| {
        let text = String::from_utf8(bytes.0.clone()).ok()?;
        Some((key.clone(), text))
    };
    let texts: Option<_> = secret.data.iter().flatten().map(text).collect();
    match texts {
        Some(texts) => Secret { string_data: Some(texts), data: None, ..secret.clone() },
        None => secret.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{home_pod, place};
    use crate::lean::Json;

    #[test]
    fn a_file_of_a_volume_has_one_place_in_the_secret() {
        assert_eq!(key("kube-api-access-wrcb8", "token"), "kube-api-access-wrcb8-3c469e");
    }

    #[test]
    fn a_token_is_asked_for_as_its_volume_says_and_bound_to_its_pod() {
        let pod = home_pod();
        let request = pod.tokens().next().unwrap().request(&pod.metadata).spec.unwrap();
        assert_eq!(request.expiration_seconds, Some(3607));
        assert_eq!(request.audiences, None, "for the API server");
        let bound = request.bound_object_ref.unwrap();
        assert_eq!((bound.kind.as_deref(), bound.uid), (Some("Pod"), pod.metadata.uid));
    }

    #[test]
    fn a_secret_says_whose_it_is_and_until_when() {
        let pod = home_pod();
        let secret = secret(&pod, &place(), &[token(&pod, 3607, 3607)]);
        assert_eq!(secret.metadata.name.as_deref(), Some("srv-token"));
        assert!(place().is_ours(&secret.metadata));
        let labels = secret.metadata.labels.unwrap();
        assert_eq!(labels["virtualkubelet.liqo.io/service-account-for-pod-name"], "srv");
        assert_eq!(labels["virtualkubelet.liqo.io/service-account-name"], "default");
        let annotations = secret.metadata.annotations.unwrap();
        let until = &annotations["virtualkubelet.liqo.io/service-account-expiration"];
        assert_eq!(until, "1970-01-01T01:00:07Z");
        let renewal = &annotations["virtualkubelet.liqo.io/service-account-renewal"];
        assert_eq!(renewal, "1970-01-01T00:48:06Z");
        assert_eq!(secret.data.unwrap()["kube-api-access-wrcb8-3c469e"].0, b"hush");
        assert_eq!(secret.immutable, Some(false));
    }

    #[test]
    fn a_new_secret_is_sent_in_plain_and_is_the_same() {
        let pod = home_pod();
        let secret = secret(&pod, &place(), &[token(&pod, 3607, 3607)]);
        let plain = in_plain(&secret);
        assert_eq!(plain.data, None);
        assert_eq!(plain.string_data.unwrap()["kube-api-access-wrcb8-3c469e"], "hush");
        assert_eq!(plain.metadata, secret.metadata);
        assert_eq!((plain.type_, plain.immutable), (secret.type_.clone(), secret.immutable));
        let bytes =
            Secret { data: Some([("a".to_owned(), ByteString(vec![0xff]))].into()), ..secret };
        assert_eq!(in_plain(&bytes), bytes, "what is no text stays as it is");
    }

    #[test]
    fn long_names_are_cut_where_labels_have_no_room_for_them() {
        let mut pod = home_pod();
        let name = "web.".repeat(25);
        pod.metadata.name = Some(format!("{name}0"));
        pod.spec.service_account_name = Some(format!("{name}1"));
        let metadata = issued(&pod, 3607);
        assert_eq!(metadata.name, Some(format!("{name}0-token")));
        let labels = metadata.labels.unwrap();
        assert!(labels.values().all(|value| value.len() <= 63), "{labels:?}");
    }

    #[test]
    fn tokens_are_due_when_there_are_none_or_they_are_anothers() {
        let pod = home_pod();
        assert_eq!(due(Some(&pod), None, at(0)), Due::Now);
        let mut other = issued(&pod, 3607);
        let annotations = other.annotations.as_mut().unwrap();
        let uid = "virtualkubelet.liqo.io/service-account-for-pod-uid".to_owned();
        annotations.insert(uid, "another".to_owned());
        assert_eq!(due(Some(&pod), Some(&other), at(0)), Due::Now);
    }

    #[test]
    fn tokens_are_renewed_when_a_fifth_of_their_time_is_left() {
        let pod = home_pod();
        let secret = issued(&pod, 3607);
        let Due::Later(wait) = due(Some(&pod), Some(&secret), at(0)) else { panic!("not due") };
        let four_fifths = 3607 - 721;
        assert!((four_fifths..four_fifths + SPREAD).contains(&wait.as_secs()), "{wait:?}");
        assert_eq!(due(Some(&pod), Some(&secret), at(3600)), Due::Now);
        assert_eq!(due(Some(&pod), Some(&secret), at(9999)), Due::Now);
    }

    #[test]
    fn tokens_that_are_shorter_than_asked_for_are_not_renewed_all_the_time() {
        let pod = home_pod();
        let secret = secret(&pod, &place(), &[token(&pod, 600, 600)]).metadata;
        assert!(matches!(due(Some(&pod), Some(&secret), at(470)), Due::Later(_)));
        assert_eq!(due(Some(&pod), Some(&secret), at(480 + 30)), Due::Now);
    }

    #[test]
    fn a_token_tells_how_far_our_clock_is_ahead_or_behind() {
        let pod = home_pod();
        let token = token(&pod, 13_607, 3607);
        assert_eq!(token.ahead(at(10_000)), SignedDuration::ZERO);
        assert_eq!(token.ahead(at(13_600)), SignedDuration::from_hours(1));
        assert_eq!(token.ahead(at(9_000)), SignedDuration::from_secs(-1000));
    }

    #[test]
    fn an_answer_says_how_long_a_token_lasts() {
        let wanted = home_pod().tokens().next().unwrap();
        let answer = |spec: serde_json::Value| -> TokenRequest {
            let status = serde_json::json!({
                "token": "hush", "expirationTimestamp": "1970-01-01T01:00:00Z",
            });
            serde_json::from_value(serde_json::json!({"spec": spec, "status": status})).unwrap()
        };
        let short = serde_json::json!({"audiences": [], "expirationSeconds": 600});
        let issued = wanted.clone().issued(answer(short)).unwrap();
        assert_eq!((issued.seconds, issued.expiration), (600, at(3600)));
        let silent = serde_json::json!({"audiences": []});
        assert_eq!(wanted.clone().issued(answer(silent)).unwrap().seconds, 3607);
        assert!(wanted.issued(TokenRequest::default()).is_none());
    }

    #[test]
    fn a_pod_that_is_over_needs_no_new_tokens() {
        let mut pod = home_pod();
        pod.status = Json::of(&serde_json::json!({"phase": "Succeeded"}));
        assert_eq!(due(Some(&pod), None, at(0)), Due::Nothing);
        assert_eq!(due(Some(&pod), Some(&issued(&pod, 1)), at(9)), Due::Nothing);
    }

    #[test]
    fn the_secret_goes_with_its_pod() {
        assert_eq!(due(None, Some(&issued(&home_pod(), 1)), at(0)), Due::Remove);
        assert_eq!(due(None, None, at(0)), Due::Nothing);
    }

    fn issued(pod: &HomePod, until: i64) -> ObjectMeta {
        secret(pod, &place(), &[token(pod, until, 3607)]).metadata
    }

    fn token(pod: &HomePod, until: i64, seconds: i64) -> Issued {
        let token = pod.tokens().next().unwrap();
        Issued { token, text: "hush".to_owned(), expiration: at(until), seconds }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }
}

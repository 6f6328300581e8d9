//! Issues identities: everything that a peer's request changes in this cluster.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestStatus,
};
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Config, ResourceExt as _};
use liqo_api::keys::{event, label, manager, object};
use liqo_api::names::{Cluster, ClusterId};
use liqo_identity::issue::{self, Decision, Occasion, Progress, Refusal};
use liqo_identity::secret::{self, Issued};
use liqo_identity::signing::SigningRequest;
use liqo_identity::token::Token;
use liqo_identity::wire::{CertificateReply, CertificateRequest};
use liqo_identity::{address, tenant};
use liqo_kit::apply::{self, Outcome, Writer};
use liqo_kit::events::{Events, Note};
use serde::Serialize;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::Error;

/// How long the signer of the cluster may take.
const SIGNING: Duration = Duration::from_secs(30);

/// Who vouches for the API server, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority(String);

impl Authority {
    /// The authority that a client of the cluster trusts.
    pub fn of(config: &Config) -> Option<Self> {
        let certificates = config.root_cert.as_ref().filter(|all| !all.is_empty())?;
        Some(Self(certificates.iter().map(|der| pem(der)).collect()))
    }
}

/// Issues identities.
pub struct Issuer {
    /// The client of the cluster.
    pub client: Client,
    /// Tells users.
    pub events: Events,
    /// This cluster.
    pub home: Cluster,
    /// The namespace that Liqo runs in.
    pub namespace: String,
    /// Where peers reach the API server, as configured.
    pub api_server: Option<String>,
    /// Who vouches for the API server; none when peers trust it anyway.
    pub authority: Option<Authority>,
    /// Whether peers have to present a token.
    pub authenticates: bool,
    /// Who writes.
    pub writers: Writers,
}

/// Who writes objects, by kind.
pub struct Writers {
    namespaces: Writer,
    secrets: Writer,
    bindings: Writer,
}

impl Default for Writers {
    fn default() -> Self {
        let writer = || Writer::owning(manager::AUTH);
        Self { namespaces: writer(), secrets: writer(), bindings: writer() }
    }
}

impl Issuer {
    /// Gives a peer that passed the check of its token an identity.
    ///
    /// Nothing is made before the whole request has been checked.
    pub async fn issue(&self, request: &CertificateRequest) -> Result<CertificateReply, Refusal> {
        let malformed = |error: &dyn std::error::Error| Refusal::Malformed(error.to_string());
        let peer = request.cluster.parse().map_err(|error| malformed(&error))?;
        if peer.id == self.home.id {
            return Err(Refusal::Oneself(peer.id));
        }
        let signing_request = request.signing_request().map_err(|error| malformed(&error))?;
        let signing_request = SigningRequest::check(&signing_request, &peer.id)?;
        let wanted = tenant::namespace(&peer).map_err(|error| malformed(&error))?;

        let url = self.api_server().await.map_err(|error| Refusal::Failed(error.to_string()))?;
        let tenant = self.tenant(&peer.id, wanted).await?;
        let certificate = self.certificate(&peer, &tenant, &signing_request).await?;
        self.bind(&peer.id, &tenant).await?;
        if let Some(token) = Token::known(&request.origin_cluster_token) {
            self.keep_token(&peer.id, &token).await?;
        }
        let authority = self.authority.as_ref().map(|authority| authority.0.as_str());
        Ok(CertificateReply::new(&tenant, &certificate, &url, authority))
    }

    /// Where peers reach the API server.
    pub async fn api_server(&self) -> Result<String, Error> {
        let mut nodes = Vec::new();
        if self.api_server.as_deref().is_none_or(str::is_empty) {
            let all: Api<Node> = Api::all(self.client.clone());
            for mark in [label::CONTROL_PLANE, label::MASTER, label::CONTROLPLANE] {
                nodes = all.list(&ListParams::default().labels(mark).match_any()).await?.items;
                if !nodes.is_empty() {
                    break;
                }
            }
        }
        Ok(address::api_server(self.api_server.as_deref(), &nodes)?)
    }

    /// The namespace of a peer, made if it is not there.
    async fn tenant(&self, peer: &ClusterId, wanted: Namespace) -> Result<String, Refusal> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        // As the API server has it at hand: what was made a moment ago is made again as it is.
        let params = ListParams::default().labels(&tenant::namespaces_of(peer)).match_any();
        let found = namespaces.list(&params).await.map_err(refused)?;
        if let Some(namespace) = found.iter().find(|found| tenant::is_ending(found)) {
            let name = namespace.name_any();
            let text = format!("namespace {name} is still being deleted; try again in a moment");
            return Err(Refusal::Failed(text));
        }
        let found = tenant::existing(&found.items).map_err(|error| failed(&error))?;
        if let Some(name) = found {
            return Ok(name.to_owned());
        }
        let made = self.writers.namespaces.apply(&namespaces, &wanted, None).await;
        made.map_err(not_written)?;
        info!(%peer, namespace = wanted.name_any(), "Tenant namespace made");
        Ok(wanted.name_any())
    }

    /// The certificate of a peer: the stored one, or a new one.
    async fn certificate(
        &self,
        peer: &Cluster,
        tenant: &str,
        request: &SigningRequest,
    ) -> Result<String, Refusal> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), tenant);
        let stored = secrets.get_opt(object::REMOTE_CERTIFICATE_SECRET).await.map_err(refused)?;
        let issued = stored.as_ref().and_then(Issued::read);
        let now = Timestamp::now();
        let occasion = match issue::decide(issued.as_ref(), request, self.authenticates, now) {
            Decision::Return(certificate) => {
                info!(%peer, "Identity told once more");
                return Ok(certificate);
            }
            Decision::Refuse => return Err(Refusal::AlreadyIssued(peer.id.clone())),
            Decision::Sign(occasion) => occasion,
        };
        let certificate = self.sign(&peer.id, request).await?;
        let issued = Issued { request: request.pem().to_owned(), certificate: certificate.clone() };
        let want = issued.secret(tenant, &peer.id);
        let written = self.writers.secrets.apply(&secrets, &want, None).await;
        let written = written.map_err(not_written)?;
        match occasion {
            Occasion::First => info!(%peer, "Identity issued"),
            Occasion::Renewal => info!(%peer, "Identity renewed"),
            Occasion::Loss => {
                warn!(%peer, "Identity replaced: the peer came with another key");
                if let Outcome::Applied(secret) = written {
                    self.tell_of_replacement(peer, &secret).await;
                }
            }
        }
        Ok(certificate)
    }

    async fn tell_of_replacement(&self, peer: &Cluster, secret: &Secret) {
        let message = format!(
            "Cluster {peer} presented the right token and another key than before, and was given \
             a new identity. If nobody reset that cluster, delete Secret {} to change the token \
             of this one.",
            object::AUTH_TOKEN_SECRET
        );
        let note = Note {
            warning: true,
            reason: event::IDENTITY_REPLACED,
            action: "Issue",
            message: &message,
        };
        self.events.tell(secret, note).await;
    }

    /// Lets the cluster sign, and waits for it.
    async fn sign(&self, peer: &ClusterId, request: &SigningRequest) -> Result<String, Refusal> {
        let requests: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let object = issue::kubernetes_request(request);
        let made = requests.create(&PostParams::default(), &object).await.map_err(refused)?;
        let name = made.name_any();
        let approval = Approval::new(issue::approval(peer, Timestamp::now()));
        requests
            .patch_approval(&name, &PatchParams::default(), &Patch::Merge(&approval))
            .await
            .map_err(refused)?;
        let is_over = |object: Option<&CertificateSigningRequest>| {
            object.is_none_or(|object| issue::progress(object) != Progress::Waiting)
        };
        let wait = await_condition(requests, &name, is_over);
        let ended = timeout(SIGNING, wait).await.map_err(|_| {
            let limit = SIGNING.as_secs();
            Refusal::Failed(format!(
                "nobody signed CertificateSigningRequest {name} within {limit} s; check that the \
                 controller manager of this cluster runs signer {}",
                object.spec.signer_name
            ))
        })?;
        let ended = ended.map_err(|error| failed(&error))?;
        match ended.as_ref().map(issue::progress) {
            Some(Progress::Signed(certificate)) => Ok(certificate),
            Some(Progress::Failed(reason)) => {
                Err(Refusal::Failed(format!("CertificateSigningRequest {name} {reason}")))
            }
            Some(Progress::Waiting) | None => {
                Err(Refusal::Failed(format!("CertificateSigningRequest {name} was deleted")))
            }
        }
    }

    /// Lets a peer do in its namespace what every peer may.
    async fn bind(&self, peer: &ClusterId, tenant: &str) -> Result<(), Refusal> {
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let basic =
            ListParams::default().labels(&tenant::roles_of(label::PERMISSIONS_BASIC)).match_any();
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), tenant);
        for role in roles.list(&basic).await.map_err(refused)? {
            let want = tenant::binding(tenant, peer, &role);
            self.writers.bindings.apply(&bindings, &want, None).await.map_err(not_written)?;
        }
        Ok(())
    }

    /// Keeps the token of a peer, for the way back.
    async fn keep_token(&self, peer: &ClusterId, token: &Token) -> Result<(), Refusal> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let want = secret::remote_token(&self.namespace, peer, token);
        self.writers.secrets.apply(&secrets, &want, None).await.map_err(not_written)?;
        Ok(())
    }
}

/// What is sent to approve a request.
#[derive(Serialize)]
struct Approval {
    status: CertificateSigningRequestStatus,
}

impl Approval {
    fn new(condition: CertificateSigningRequestCondition) -> Self {
        let conditions = Some(vec![condition]);
        Self { status: CertificateSigningRequestStatus { conditions, certificate: None } }
    }
}

/// What peers are told when the API server says no, or does not answer.
#[expect(clippy::needless_pass_by_value, reason = "it is what errors are turned into others with")]
fn refused(error: kube::Error) -> Refusal {
    answered(&error).unwrap_or_else(|| failed(&error))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what errors are turned into others with")]
fn not_written(error: apply::Error) -> Refusal {
    let answer = match &error {
        apply::Error::Request { source, .. } => answered(source),
        apply::Error::Encode { .. } => None,
    };
    answer.unwrap_or_else(|| failed(&error))
}

/// What the API server said, if it was the one who said no.
fn answered(error: &kube::Error) -> Option<Refusal> {
    if let kube::Error::Api(status) = error {
        Some(Refusal::Forbidden(status.message.clone()))
    } else {
        None
    }
}

fn failed(error: &dyn std::error::Error) -> Refusal {
    Refusal::Failed(error.to_string())
}

/// A certificate in PEM.
fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut lines = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        lines.push_str(&String::from_utf8_lossy(line));
        lines.push('\n');
    }
    lines + "-----END CERTIFICATE-----\n"
}

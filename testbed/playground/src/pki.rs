//! The certificates and kubeconfigs of a cluster, as kubeadm would lay them out.
//!
//! Keys are made once and never leave the node's folder; everything is signed for ten years because
//! a playground has no one to renew it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use base64::Engine as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::json;
use time::{Duration, OffsetDateTime};

use crate::plan::{API_PORT, ClusterPlan, NodePlan};

/// Files by their path below `/etc/kubernetes`.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the certificate {name}")]
pub struct Error {
    name: String,
    source: rcgen::Error,
}

/// What identifies one cluster: its authorities, and what they signed.
pub struct Pki {
    cluster: String,
    server: String,
    ca: Authority,
    shared: Files,
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Who a certificate is for.
struct Subject<'a> {
    name: &'a str,
    organization: Option<&'a str>,
    addresses: Vec<SanType>,
}

impl Pki {
    /// Makes the authorities of a cluster and the control plane's certificates.
    pub fn new(cluster: &ClusterPlan) -> Result<Self, Error> {
        let ca = Authority::new("kubernetes")?;
        let front = Authority::new("front-proxy-ca")?;
        let etcd = Authority::new("etcd-ca")?;
        let node = cluster.control_plane();
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);

        let mut names = vec![dns("kubernetes"), dns("localhost"), dns(&node.name)];
        names.extend(
            ["default", "default.svc", "default.svc.cluster.local"]
                .map(|tail| dns(&format!("kubernetes.{tail}"))),
        );
        names.extend([cluster.kubernetes_ip, node.address].map(|ip| SanType::IpAddress(ip.into())));
        names.extend(cluster.public_address.map(|ip| SanType::IpAddress(ip.into())));
        names.push(SanType::IpAddress(loopback));
        let etcd_names = || {
            vec![
                dns("localhost"),
                dns(&node.name),
                SanType::IpAddress(loopback),
                SanType::IpAddress(node.address.into()),
            ]
        };

        let mut files = Files::new();
        for (path, authority) in [("ca", &ca), ("front-proxy-ca", &front), ("etcd/ca", &etcd)] {
            put(&mut files, path, &authority.pem, authority.issuer.key());
        }
        for (path, authority, subject) in [
            (
                "apiserver",
                &ca,
                Subject { name: "kube-apiserver", organization: None, addresses: names },
            ),
            (
                "apiserver-kubelet-client",
                &ca,
                client("kube-apiserver-kubelet-client", "kubeadm:cluster-admins"),
            ),
            (
                "front-proxy-client",
                &front,
                Subject { name: "front-proxy-client", organization: None, addresses: vec![] },
            ),
            (
                "apiserver-etcd-client",
                &etcd,
                Subject {
                    name: "kube-apiserver-etcd-client",
                    organization: None,
                    addresses: vec![],
                },
            ),
            (
                "etcd/server",
                &etcd,
                Subject { name: &node.name, organization: None, addresses: etcd_names() },
            ),
            (
                "etcd/peer",
                &etcd,
                Subject { name: &node.name, organization: None, addresses: etcd_names() },
            ),
            (
                "etcd/healthcheck-client",
                &etcd,
                Subject {
                    name: "kube-etcd-healthcheck-client",
                    organization: None,
                    addresses: vec![],
                },
            ),
        ] {
            let (pem, key) = authority.sign(&subject)?;
            put(&mut files, path, &pem, &key);
        }
        let tokens =
            KeyPair::generate().map_err(|source| Error { name: "sa".to_owned(), source })?;
        files.insert("pki/sa.key".to_owned(), tokens.serialize_pem().into_bytes());
        files.insert("pki/sa.pub".to_owned(), tokens.public_key_pem().into_bytes());

        let server = format!("https://{}:{API_PORT}", node.address);
        let mut pki = Self { cluster: cluster.cluster.name.clone(), server, ca, shared: files };
        for (path, name, organization) in [
            ("admin.conf", "kubernetes-admin", "kubeadm:cluster-admins"),
            ("super-admin.conf", "kubernetes-super-admin", "system:masters"),
            ("controller-manager.conf", "system:kube-controller-manager", ""),
            ("scheduler.conf", "system:kube-scheduler", ""),
        ] {
            let config = pki.kubeconfig(name, organization)?;
            pki.shared.insert(path.to_owned(), config);
        }
        Ok(pki)
    }

    /// The administrator's kubeconfig.
    pub fn admin(&self) -> &[u8] {
        self.shared.get("super-admin.conf").map_or(&[], Vec::as_slice)
    }

    /// What belongs on a node: all of it where the control plane runs, its own share elsewhere.
    pub fn files_for(&self, node: &NodePlan) -> Result<Files, Error> {
        let mut files = if node.control_plane { self.shared.clone() } else { Files::new() };
        files.insert("pki/ca.crt".to_owned(), self.ca.pem.clone().into_bytes());
        let identity = format!("system:node:{}", node.name);
        files.insert("kubelet.conf".to_owned(), self.kubeconfig(&identity, "system:nodes")?);
        files.insert(
            "kube-proxy.conf".to_owned(),
            self.kubeconfig("system:kube-proxy", "system:node-proxier")?,
        );
        let serving = Subject {
            name: &identity,
            organization: Some("system:nodes"),
            addresses: vec![dns(&node.name), SanType::IpAddress(node.address.into())],
        };
        let (pem, key) = self.ca.sign(&serving)?;
        put(&mut files, "kubelet", &pem, &key);
        Ok(files)
    }

    /// A kubeconfig for whoever `name` and `organization` say.
    pub fn kubeconfig(&self, name: &str, organization: &str) -> Result<Vec<u8>, Error> {
        let (pem, key) = self.ca.sign(&client(name, organization))?;
        let context = format!("{name}@{}", self.cluster);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.cluster, "cluster": {
                "server": self.server,
                "certificate-authority-data": base64(self.ca.pem.as_bytes()),
            }}],
            "users": [{"name": name, "user": {
                "client-certificate-data": base64(pem.as_bytes()),
                "client-key-data": base64(key.serialize_pem().as_bytes()),
            }}],
            "contexts": [{"name": context, "context": {"cluster": self.cluster, "user": name}}],
            "current-context": context,
        });
        Ok(serde_json::to_vec_pretty(&config).expect("a JSON value serializes"))
    }
}

impl Authority {
    fn new(name: &str) -> Result<Self, Error> {
        let fail = |source| Error { name: name.to_owned(), source };
        let mut params = params(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::KeyCertSign,
        ];
        params.subject_alt_names = vec![dns(name)];
        let key = KeyPair::generate().map_err(fail)?;
        let pem = params.self_signed(&key).map_err(fail)?.pem();
        Ok(Self { pem, issuer: Issuer::new(params, key) })
    }

    fn sign(&self, subject: &Subject<'_>) -> Result<(String, KeyPair), Error> {
        let fail = |source| Error { name: subject.name.to_owned(), source };
        let mut params = params(subject.name, subject.organization.filter(|text| !text.is_empty()));
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if !subject.addresses.is_empty() {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.subject_alt_names.clone_from(&subject.addresses);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(fail)?;
        let pem = params.signed_by(&key, &self.issuer).map_err(fail)?.pem();
        Ok((pem, key))
    }
}

fn params(name: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.distinguished_name.push(DnType::CommonName, name);
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::hours(1);
    params.not_after = now + Duration::days(3650);
    params
}

fn client<'a>(name: &'a str, organization: &'a str) -> Subject<'a> {
    Subject { name, organization: Some(organization), addresses: vec![] }
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().expect("names of nodes and services are ASCII"))
}

fn put(files: &mut Files, path: &str, pem: &str, key: &KeyPair) {
    files.insert(format!("pki/{path}.crt"), pem.as_bytes().to_vec());
    files.insert(format!("pki/{path}.key"), key.serialize_pem().into_bytes());
}

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::topology::Topology;

    #[test]
    fn a_worker_holds_no_authority_key_and_the_control_plane_all_of_kubeadms_files() {
        let plan = Plan::new("pg", 0, "x", &Topology::load("quick-start").unwrap()).unwrap();
        let cluster = &plan.clusters[0];
        let pki = Pki::new(cluster).unwrap();
        let worker = pki.files_for(&cluster.nodes[1]).unwrap();
        let names: Vec<&str> = worker.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["kube-proxy.conf", "kubelet.conf", "pki/ca.crt", "pki/kubelet.crt", "pki/kubelet.key"]
        );
        let first = pki.files_for(&cluster.nodes[0]).unwrap();
        for file in ["pki/ca.key", "pki/sa.pub", "pki/etcd/server.crt", "admin.conf"] {
            assert!(first.contains_key(file), "{file}");
        }
    }

    #[test]
    fn a_kubeconfig_names_the_cluster_and_reads_as_one() {
        let plan = Plan::new("pg", 0, "x", &Topology::load("one").unwrap()).unwrap();
        let pki = Pki::new(&plan.clusters[0]).unwrap();
        let config: kube::config::Kubeconfig =
            serde_json::from_slice(&pki.kubeconfig("jane", "team").unwrap()).unwrap();
        assert_eq!(config.current_context.as_deref(), Some("jane@rome"));
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://198.18.1.11:6443"));
    }
}

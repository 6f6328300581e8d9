//! Which certificates of virtual kubelets are approved: those for their own node, and no other.

use liqo_api::keys::object;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

/// The common name of the subject of a signing request in PEM.
pub fn common_name(pem: &[u8]) -> Option<String> {
    let block = Pem::iter_from_buffer(pem).next()?.ok()?;
    let (_, request) = X509CertificationRequest::from_der(&block.contents).ok()?;
    let mut names = request.certification_request_info.subject.iter_common_name();
    let name = names.next()?.as_str().ok()?.to_owned();
    names.next().is_none().then_some(name)
}

/// A request for a certificate, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Who is to sign it.
    pub signer: &'a str,
    /// Who asks.
    pub user: &'a str,
    /// For whom: the common name of the subject.
    pub common_name: &'a str,
}

/// Whether a request comes from the virtual kubelet of a tenant namespace, for its own node.
///
/// `node` says which virtual node belongs to a tenant namespace, if any.
pub fn is_approved(request: Request<'_>, node: impl Fn(&str) -> Option<String>) -> bool {
    let is_signer = [object::SIGNER_KUBELET, object::SIGNER_EKS].contains(&request.signer);
    let user = request.user.strip_prefix("system:serviceaccount:");
    let tenant = user
        .and_then(|user| user.split_once(':'))
        .filter(|(_, account)| *account == object::VIRTUAL_KUBELET)
        .map(|(namespace, _)| namespace);
    let wanted = request.common_name.strip_prefix("system:node:");
    is_signer && tenant.and_then(node).zip(wanted).is_some_and(|(own, wanted)| own == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Request<'static> = Request {
        signer: "kubernetes.io/kubelet-serving",
        user: "system:serviceaccount:liqo-tenant-milan-ee0b4a:virtual-kubelet",
        common_name: "system:node:liqo-milan",
    };

    #[test]
    fn a_virtual_kubelet_gets_a_certificate_for_its_own_node() {
        assert!(is_approved(OWN, node));
        assert!(is_approved(Request { signer: "beta.eks.amazonaws.com/app-serving", ..OWN }, node));
    }

    #[test]
    fn nobody_else_does() {
        for other in [
            Request { signer: "kubernetes.io/kube-apiserver-client", ..OWN },
            Request { user: "system:serviceaccount:liqo-tenant-milan-ee0b4a:default", ..OWN },
            Request { user: "system:serviceaccount:liqo-tenant-other:virtual-kubelet", ..OWN },
            Request { user: "liqo-tenant-milan-ee0b4a:virtual-kubelet", ..OWN },
            Request { common_name: "system:node:worker-1", ..OWN },
            Request { common_name: "liqo-milan", ..OWN },
        ] {
            assert!(!is_approved(other, node), "{other:?}");
        }
    }

    #[test]
    fn the_subject_is_read_from_the_request() {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "system:node:liqo-milan");
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        assert_eq!(common_name(pem.as_bytes()).as_deref(), Some("system:node:liqo-milan"));
        assert_eq!(common_name(b"hello"), None);
    }

    fn node(tenant: &str) -> Option<String> {
        (tenant == "liqo-tenant-milan-ee0b4a").then(|| "liqo-milan".to_owned())
    }
}

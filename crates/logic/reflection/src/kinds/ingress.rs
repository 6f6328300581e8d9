//! Ingresses: their rules are copied; who serves them is for the other cluster to say.

use k8s_openapi::api::networking::v1::{Ingress, IngressSpec};
use liqo_api::keys::annotation;

use crate::{Outcome, Place, Reflect, Translated};

/// Ingresses.
pub struct Ingresses;

impl Reflect for Ingresses {
    type Source = Ingress;
    type Target = Ingress;
    const NAME: &'static str = "Ingress";

    fn desired(source: &Ingress, place: &Place, _: &Translated) -> Outcome<Ingress> {
        let name = source.metadata.name.clone().unwrap_or_default();
        let mut metadata = place.metadata(&source.metadata, name);
        if let Some(annotations) = &mut metadata.annotations {
            annotations.remove(annotation::INGRESS_CLASS);
        }
        let spec = source.spec.as_ref().map(|spec| IngressSpec {
            default_backend: spec.default_backend.clone(),
            rules: spec.rules.clone(),
            tls: spec.tls.clone(),
            ingress_class_name: None,
        });
        Outcome::Copy(Ingress { metadata, spec, status: None })
    }

    fn trim(source: &mut Ingress) {
        source.status = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::place::tests::place;

    #[test]
    fn rules_are_copied_and_the_class_is_not() {
        let rules = json!([{"host": "shop.example", "http": {"paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}},
        }]}}]);
        let tls = json!([{"hosts": ["shop.example"], "secretName": "shop-tls"}]);
        let backend = json!({"service": {"name": "web", "port": {"name": "http"}}});
        let annotations = json!({"kubernetes.io/ingress.class": "nginx", "note": "yes"});
        let source: Ingress = serde_json::from_value(json!({
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {"ingressClassName": "nginx", "rules": rules, "tls": tls,
                     "defaultBackend": backend},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
        }))
        .unwrap();
        let Outcome::Copy(copy) = Ingresses::desired(&source, &place(), &Translated::new()) else {
            panic!("no copy")
        };
        let copy = serde_json::to_value(copy).unwrap();
        let spec = json!({"rules": rules, "tls": tls, "defaultBackend": backend});
        assert_eq!(copy["spec"], spec);
        assert_eq!(copy["metadata"]["annotations"], json!({"note": "yes"}));
        assert_eq!(copy.get("status"), None);
    }
}

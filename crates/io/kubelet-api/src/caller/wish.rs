//! Which right a request needs: that to a subresource of the node, as kubelets have it.

use http::Method;

/// A right; any one of the subresources will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) verb: &'static str,
    pub(super) subresources: &'static [&'static str],
}

impl Wish {
    /// What a request needs.
    ///
    /// Streams into pods always need the right to create: that a WebSocket begins with a GET must not
    /// give commands to those who may only read.
    pub(super) fn of(method: &Method, path: &str) -> Self {
        let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        let subresources: &[&str] = match first {
            "stats" => &["stats"],
            "metrics" => &["metrics"],
            "logs" => &["log"],
            "pods" | "runningpods" => &["pods", "proxy"],
            "healthz" => &["healthz", "proxy"],
            _ => &["proxy"],
        };
        let verb = match first {
            "exec" | "attach" | "portForward" => "create",
            _ => verb(method),
        };
        Self { verb, subresources }
    }
}

fn verb(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        // Whatever it is, it is more than reading.
        _ => "create",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_of_kubelets() {
        for (path, expected) in [
            ("/stats/summary", &["stats"][..]),
            ("/metrics", &["metrics"]),
            ("/metrics/cadvisor", &["metrics"]),
            ("/logs/syslog", &["log"]),
            ("/containerLogs/shop/web/main", &["proxy"]),
            ("/pods", &["pods", "proxy"]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/healthz", &["healthz", "proxy"]),
            ("/metricsx", &["proxy"]),
            ("/", &["proxy"]),
        ] {
            let wish = Wish::of(&Method::GET, path);
            assert_eq!((wish.verb, wish.subresources), ("get", expected), "{path}");
        }
    }

    #[test]
    fn who_may_only_read_gets_no_stream() {
        for path in ["/exec/shop/web/main", "/attach/shop/web/main", "/portForward/shop/web"] {
            for method in [Method::GET, Method::POST] {
                let wish = Wish::of(&method, path);
                assert_eq!((wish.verb, wish.subresources), ("create", &["proxy"][..]), "{path}");
            }
        }
    }
}

//! The other cluster of commands that take two: kubectl's flags once more, with a prefix.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use super::{ClusterArguments, request_timeout};

/// What its flags begin with.
const PREFIX: &str = "--remote-";

/// Which cluster the other one is
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of the remote cluster")]
#[expect(clippy::struct_field_names, reason = "the names of fields tell flags from each other")]
pub struct RemoteArguments {
    /// Path of the kubeconfig of the remote cluster
    #[arg(long = "remote-kubeconfig", value_name = "FILE")]
    remote_kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use for the remote cluster
    #[arg(long = "remote-context", value_name = "NAME")]
    remote_context: Option<String>,
    /// Cluster of the kubeconfig to use for the remote cluster
    #[arg(long = "remote-cluster", value_name = "NAME")]
    remote_cluster: Option<String>,
    /// User of the kubeconfig to use for the remote cluster
    #[arg(long = "remote-user", value_name = "NAME")]
    remote_user: Option<String>,
    /// Address and port of the remote API server
    #[arg(long = "remote-server", hide = true)]
    remote_server: Option<String>,
    /// Bearer token for the remote API server
    #[arg(long = "remote-token", hide = true)]
    remote_token: Option<SecretString>,
    /// User to act as in the remote cluster
    #[arg(long = "remote-as", hide = true)]
    remote_as: Option<String>,
    /// Group to act as in the remote cluster
    #[arg(long = "remote-as-group", hide = true)]
    remote_as_group: Vec<String>,
    /// UID to act as in the remote cluster
    #[arg(long = "remote-as-uid", hide = true)]
    remote_as_uid: Option<String>,
    /// Accept any certificate of the remote API server
    #[arg(long = "remote-insecure-skip-tls-verify", hide = true)]
    remote_insecure_skip_tls_verify: bool,
    /// File of the authority that signed the remote API server's certificate
    #[arg(long = "remote-certificate-authority", hide = true)]
    remote_certificate_authority: Option<PathBuf>,
    /// File of the client's certificate for the remote API server
    #[arg(long = "remote-client-certificate", hide = true)]
    remote_client_certificate: Option<PathBuf>,
    /// File of the client's key for the remote API server
    #[arg(long = "remote-client-key", hide = true)]
    remote_client_key: Option<PathBuf>,
    /// Name that the remote API server's certificate has to have
    #[arg(long = "remote-tls-server-name", hide = true)]
    remote_tls_server_name: Option<String>,
    /// How long a request to the remote API server may take
    #[arg(long = "remote-request-timeout", hide = true, value_parser = request_timeout)]
    remote_request_timeout: Option<Duration>,
    /// Send to and receive from the remote API server without compression
    #[arg(long = "remote-disable-compression", hide = true)]
    remote_disable_compression: bool,
    /// Folder of kubectl's cache, which is not used
    #[arg(long = "remote-cache-dir", hide = true)]
    remote_cache_dir: Option<PathBuf>,
    /// User name, for what stands in front of the remote API server
    #[arg(long = "remote-username", hide = true)]
    remote_username: Option<String>,
    /// Password, for what stands in front of the remote API server
    #[arg(long = "remote-password", hide = true)]
    remote_password: Option<SecretString>,
}

impl RemoteArguments {
    /// The same as flags of the one cluster that is meant.
    pub fn cluster(&self, verbose: bool) -> ClusterArguments {
        let all = self.clone();
        ClusterArguments {
            verbose,
            kubeconfig: all.remote_kubeconfig,
            context: all.remote_context,
            cluster: all.remote_cluster,
            user: all.remote_user,
            server: all.remote_server,
            token: all.remote_token,
            act_as: all.remote_as,
            act_as_group: all.remote_as_group,
            act_as_uid: all.remote_as_uid,
            insecure_skip_tls_verify: all.remote_insecure_skip_tls_verify,
            certificate_authority: all.remote_certificate_authority,
            client_certificate: all.remote_client_certificate,
            client_key: all.remote_client_key,
            tls_server_name: all.remote_tls_server_name,
            request_timeout: all.remote_request_timeout,
            disable_compression: all.remote_disable_compression,
            cache_dir: all.remote_cache_dir,
            username: all.remote_username,
            password: all.remote_password,
            prefix: PREFIX,
        }
    }
}

//! Keys in the data of Secrets and ConfigMaps.

/// ConfigMap of the cluster's identity: its identifier.
pub const CLUSTER_ID: &str = "CLUSTER_ID";
/// ConfigMap of the cluster's identity: its name.
pub const CLUSTER_NAME: &str = "CLUSTER_NAME";

/// Token to present, or to be presented.
pub const TOKEN: &str = "token";

/// Identity: private key in PEM.
pub const PRIVATE_KEY: &str = "private-key";
/// Identity, or one issued to a peer: certificate in PEM.
pub const CERTIFICATE: &str = "certificate";
/// Identity: URL of the remote API server.
pub const API_SERVER_URL: &str = "apiServerUrl";
/// Identity: authority of the remote API server, in PEM.
pub const API_SERVER_CA: &str = "apiServerCa";
/// Identity: namespace that the remote cluster keeps for this one.
pub const NAMESPACE: &str = "namespace";
/// Identity: URL of the proxy to the remote API server.
pub const PROXY_URL: &str = "proxyURL";
/// Identity issued to a peer: the signing request as it came, in PEM.
pub const CSR: &str = "csr";

/// Identity on AWS: access key.
pub const AWS_ACCESS_KEY_ID: &str = "awsAccessKeyID";
/// Identity on AWS: secret of the access key.
pub const AWS_SECRET_ACCESS_KEY: &str = "awsSecretAccessKey";
/// Identity on AWS: region of the cluster.
pub const AWS_REGION: &str = "awsRegion";
/// Identity on AWS: name of the cluster.
pub const AWS_EKS_CLUSTER_ID: &str = "awsEksClusterID";
/// Identity on AWS: user that the access key belongs to.
pub const AWS_IAM_USER_ARN: &str = "awsIamUserArn";
/// Settings for AWS: access key.
pub const AWS_CONFIG_ACCESS_KEY_ID: &str = "ACCESS_KEY_ID";
/// Settings for AWS: secret of the access key.
pub const AWS_CONFIG_SECRET_ACCESS_KEY: &str = "SECRET_ACCESS_KEY";

/// WireGuard: public key in base64, also in `backend_config`.
pub const WIREGUARD_PUBLIC_KEY: &str = "publicKey";
/// WireGuard: private key in base64.
pub const WIREGUARD_PRIVATE_KEY: &str = "privateKey";
/// `backend_config`, and what is in use of it: port of the gateway.
pub const TUNNEL_PORT: &str = "port";
/// What is in use for a peer: its resolved address.
pub const TUNNEL_ENDPOINT_IP: &str = "endpointIP";
/// What is in use for a peer: the networks behind the tunnel.
pub const TUNNEL_ALLOWED_IPS: &str = "allowedIPs";
/// What is in use for a peer: the largest packet that passes whole.
pub const TUNNEL_MTU: &str = "mtu";
/// What is in use for a peer: who carries the packets, the kernel or a process.
pub const TUNNEL_IMPLEMENTATION: &str = "implementation";

/// Webhook certificates: the authority.
pub const WEBHOOK_CA: &str = "ca";
/// Webhook certificates: the certificate.
pub const WEBHOOK_CERTIFICATE: &str = "tls.crt";
/// Webhook certificates: the private key.
pub const WEBHOOK_PRIVATE_KEY: &str = "tls.key";

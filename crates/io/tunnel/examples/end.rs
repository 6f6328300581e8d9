//! One end of a tunnel, until its standard input ends:
//! `end DEVICE PORT MTU PRIVATE-KEY PEER-KEY PEER-ENDPOINT PEER-NETWORK`.

use std::error::Error;
use std::io::Read as _;

use liqo_tunnel::{Implementation, Peer, PrivateKey, Settings, Tunnel};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, port, mtu, private, public, endpoint, network] = words.as_slice() else {
        return Err("DEVICE PORT MTU PRIVATE-KEY PEER-KEY PEER-ENDPOINT PEER-NETWORK".into());
    };
    let settings = Settings {
        name: name.clone(),
        private_key: PrivateKey::from_base64(private)?,
        port: port.parse()?,
        mtu: mtu.parse()?,
        probes: None,
        implementation: Implementation::Userspace,
    };
    let tunnel = Tunnel::open(settings, None).await?;
    let peer = Peer {
        public_key: public.parse()?,
        endpoint: Some(endpoint.parse()?),
        allowed: vec![network.parse()?],
        keepalive: None,
    };
    tunnel.set_peers(&[peer]).await?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    tunnel.close().await;
    Ok(())
}

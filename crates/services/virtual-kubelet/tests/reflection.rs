//! What a virtual kubelet brings to another cluster and back, between two real API servers.
#![expect(clippy::unwrap_used, reason = "a failure is the test's failure")]

#[path = "reflection/additions.rs"]
mod additions;
#[path = "reflection/adversity.rs"]
mod adversity;
#[path = "reflection/claims.rs"]
mod claims;
#[path = "reflection/config_maps.rs"]
mod config_maps;
#[path = "reflection/pods.rs"]
mod pods;
#[path = "reflection/port.rs"]
mod port;
#[path = "reflection/provider.rs"]
mod provider;
#[path = "reflection/secrets.rs"]
mod secrets;
#[path = "reflection/services.rs"]
mod services;
#[path = "reflection/storm.rs"]
mod storm;
#[path = "reflection/tokens.rs"]
mod tokens;
#[path = "reflection/translation.rs"]
mod translation;
#[path = "reflection/waiting.rs"]
mod waiting;
#[path = "reflection/warnings.rs"]
mod warnings;
#[path = "reflection/world.rs"]
mod world;

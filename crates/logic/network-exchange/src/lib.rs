//! What peers tell each other of their networks, and the tunnels that follow.
//!
//! ```text
//!  here                                        there
//!  Service, Secret of the gateway ─> told ──── NetworkConfig ───> heard ─> ledger ─> its status
//!                                    heard <── NetworkConfig ──── told
//!  told, answered + heard, answered ─> tunnel: TunnelEndpoint
//! ```
//!
//! | part | decides |
//! | --- | --- |
//! | [`gateway`] | where peers reach our gateway, and by which key they know it |
//! | [`told`] | when a peer is told of our network, and what |
//! | [`heard`] | what a peer told us, and what it answered; nothing of it is believed unchecked |
//! | [`tunnel`] | what gateways and nodes have to know of a peer |
//! | [`by_hand`] | what somebody who has access to both tells each of the other |
//! | [`pair`] | what happens when one side or the other takes its word back |

pub mod by_hand;
pub mod gateway;
pub mod heard;
pub mod pair;
pub mod told;
pub mod tunnel;

#[cfg(test)]
mod fixtures;

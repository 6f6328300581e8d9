//! Who peers are to each other, decided from values alone.
//!
//! A cluster that wants an identity at another one makes a key and a [signing request](signing),
//! and sends it with the other's [token] in the [words](wire) of the authentication service. The
//! other one decides whether to [issue] a certificate, and keeps what belongs to the peer in a
//! [tenant] namespace. Both find out under which [address] they are reached.
//!
//! - [`secret`]: Secrets with tokens and identities;
//! - [`limit`]: how many wrong tokens are heard;
//! - [`certificate`]: how long a certificate lasts, and when to renew it.

pub mod address;
pub mod certificate;
pub mod issue;
pub mod limit;
pub mod secret;
pub mod signing;
pub mod tenant;
pub mod token;
pub mod wire;

//! What components and plugins say to each other over gRPC, made from the descriptions in `proto`.

/// Address management: what addresses of one cluster are called in another.
pub mod ipam {
    include!(concat!(env!("OUT_DIR"), "/ipam/_.rs"));
}

/// Resource plugins: how much is offered to which peer.
pub mod resource_reader {
    include!(concat!(env!("OUT_DIR"), "/resource_reader/_.rs"));
}

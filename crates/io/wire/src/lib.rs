//! What components and plugins say to each other over gRPC, made from the descriptions in `proto`.

/// Resource plugins: how much is offered to which peer.
pub mod resource_reader {
    tonic::include_proto!("_");
}

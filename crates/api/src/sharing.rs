//! `sharing.liqo.io`: what a cluster lends.

mod resource_offer;

pub use resource_offer::{
    OfferPhase, ResourceOffer, ResourceOfferSpec, ResourceOfferStatus, StorageType,
    VirtualKubeletStatus,
};

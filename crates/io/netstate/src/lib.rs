//! Sees and changes what the kernel holds of the fabric, and notices when somebody else does.
//!
//! ```text
//!  kernel ──observe──> State ──plan──> Steps ──enact──> kernel
//!     └──changes── somebody touched what is ours ──> look again
//! ```
//!
//! Only what is within a [scope](liqo_fabric::owned::Scope) is read or written.

mod changes;
mod enact;
mod error;
mod filter;
mod flows;
mod kernel;
mod namespace;
mod netfilter;
mod observe;

pub use self::changes::Changes;
pub use self::error::Error;
pub use self::flows::Remembered;
pub use self::kernel::Kernel;
pub use self::namespace::Namespace;
pub use self::observe::{Observed, Uplink};

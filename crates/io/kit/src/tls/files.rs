//! Makes the files of a certificate that vouches for itself, unless they are there already.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use liqo_identity::certificate::Validity;
use time::OffsetDateTime;

use super::{Error, HEAD_START, Pair, load};

/// How long a certificate lasts.
const LIFE: Duration = Duration::from_hours(365 * 24);

/// Makes a certificate and its key, unless there is a pair that fits and lasts; whether it did.
///
/// Each file appears whole or not at all, and nobody else may read the key.
pub fn ensure(certificate: &Path, key: &Path, now: OffsetDateTime) -> Result<bool, Error> {
    if is_good(certificate, key, now) {
        return Ok(false);
    }
    let pair = Pair::self_signed(&[], now - HEAD_START, LIFE)?;
    write(key, &pair.key, 0o600)?;
    write(certificate, &pair.certificate, 0o644)?;
    Ok(true)
}

fn is_good(certificate: &Path, key: &Path, now: OffsetDateTime) -> bool {
    let Ok(text) = fs::read_to_string(certificate) else { return false };
    let Ok(validity) = Validity::of(&text) else { return false };
    let Ok(now) = Timestamp::from_second(now.unix_timestamp()) else { return false };
    !validity.is_due(now) && load(certificate, key).is_ok()
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let try_to = || -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let draft = path.with_extension("new");
        let _ = fs::remove_file(&draft);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&draft, path)
    };
    try_to().map_err(|source| Error::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_pair_is_made_once_and_kept_while_it_lasts() {
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] =
            ["cert.pem", "key.pem"].map(|name| folder.path().join("certs").join(name));
        let now = OffsetDateTime::now_utc();
        assert!(ensure(&certificate, &key, now).unwrap());
        let made = fs::read_to_string(&certificate).unwrap();
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);

        assert!(!ensure(&certificate, &key, now + Duration::from_hours(24)).unwrap());
        assert_eq!(fs::read_to_string(&certificate).unwrap(), made);
        assert!(ensure(&certificate, &key, now + LIFE * 3 / 4).unwrap(), "it ends soon");
    }

    #[test]
    fn a_pair_that_does_not_fit_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        let now = OffsetDateTime::now_utc();
        ensure(&certificate, &key, now).unwrap();
        let other = Pair::self_signed(&[], now, LIFE).unwrap();
        fs::write(&key, other.key).unwrap();
        assert!(ensure(&certificate, &key, now).unwrap());
        assert!(!ensure(&certificate, &key, now).unwrap());
    }
}

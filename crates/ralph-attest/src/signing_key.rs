//! The key that signs statements: an ed25519 key in ralph's home, readable by its user only.
//!
//! Every program of that user can read it, an agent's too. A signature therefore shows which account a statement comes
//! from, not that no agent of that account made it.

use base64ct::{Base64, Encoding};
use ed25519_dalek::{Signature, Signer, VerifyingKey};
use ralph_home::paths::RalphHome;
use ralph_sys::clock;
use ralph_sys::fs::{self, FileError};
use sha2::{Digest, Sha256};

const KEY_BYTES: usize = 32;
pub(crate) const SIGNATURE_BYTES: usize = 64;
const SHORT_ID_CHARS: usize = 16;

/// Has no `Debug`, so that no message can contain it.
#[expect(missing_debug_implementations, reason = "the key is secret")]
pub struct SigningKey(ed25519_dalek::SigningKey);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

#[derive(Debug, thiserror::Error)]
pub enum SigningKeyError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the system provides no random numbers")]
    NoRandomness,
    #[error("`{}` is not 32 bytes long", .0.display())]
    Damaged(std::path::PathBuf),
}

#[derive(Debug, thiserror::Error)]
#[error("not a public key: expected 32 bytes in base64, as `ralph report --public-key` prints")]
pub struct PublicKeyError;

impl SigningKey {
    pub(crate) fn from_seed(seed: [u8; KEY_BYTES]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(&seed))
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(bytes).to_bytes()
    }
}

impl PublicKey {
    /// Reads what [`Self::to_text`] writes.
    pub fn parse(text: &str) -> Result<Self, PublicKeyError> {
        let bytes = Base64::decode_vec(text.trim()).map_err(|_| PublicKeyError)?;
        let bytes: [u8; KEY_BYTES] = bytes.try_into().map_err(|_| PublicKeyError)?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| PublicKeyError)?;
        // Anyone can sign for a key of small order.
        if key.is_weak() { Err(PublicKeyError) } else { Ok(Self(key)) }
    }

    pub fn to_text(&self) -> String {
        Base64::encode_string(self.0.as_bytes())
    }

    /// SHA-256 of the key's bytes.
    pub fn id(&self) -> String {
        format!("{:x}", Sha256::digest(self.0.as_bytes()))
    }

    /// The beginning of the id, for people.
    pub fn short_id(&self) -> String {
        self.id().chars().take(SHORT_ID_CHARS).collect()
    }

    pub(crate) fn verifies(&self, bytes: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        self.0.verify_strict(bytes, &Signature::from_bytes(signature)).is_ok()
    }
}

/// The key of this home, which is created if there is none.
pub fn load_signing_key(home: &RalphHome) -> Result<SigningKey, SigningKeyError> {
    let path = home.signing_key();
    if fs::read_if_exists(&path, KEY_BYTES)?.is_none() {
        fs::create_private_dir(home.root())?;
        let seed = clock::random_key().ok_or(SigningKeyError::NoRandomness)?;
        // If another process creates one at the same time, the first one stays.
        fs::create_new(&path, &seed)?;
    }
    let bytes = fs::read(&path, KEY_BYTES)?;
    let seed = bytes.try_into().map_err(|_| SigningKeyError::Damaged(path))?;
    Ok(SigningKey::from_seed(seed))
}

/// The public key of this home; `None` if nothing was ever signed here.
pub fn load_public_key(home: &RalphHome) -> Result<Option<PublicKey>, SigningKeyError> {
    if !fs::exists(&home.signing_key()) {
        return Ok(None);
    }
    load_signing_key(home).map(|key| Some(key.public()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_created_once_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let home = RalphHome::new(directory.path().join("home"));
        assert_eq!(load_public_key(&home).unwrap(), None);
        let key = load_signing_key(&home).unwrap().public();
        assert_eq!(load_signing_key(&home).unwrap().public(), key);
        assert_eq!(load_public_key(&home).unwrap(), Some(key.clone()));
        let mode = std::fs::metadata(home.signing_key()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(PublicKey::parse(&format!("{}\n", key.to_text())).unwrap(), key);
    }

    #[test]
    fn a_damaged_key_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let home = RalphHome::new(directory.path().to_owned());
        fs::create_new(&home.signing_key(), b"short").unwrap();
        let error = load_signing_key(&home).err().unwrap().to_string();
        assert!(error.ends_with("is not 32 bytes long"), "{error}");
    }

    #[test]
    fn only_usable_keys_are_parsed() {
        let small_order = Base64::encode_string(&[0; 32]);
        let identity = Base64::encode_string(&[&[1u8][..], &[0; 31]].concat());
        let short = Base64::encode_string(&[7; 31]);
        for text in ["", "no base64!", &small_order, &identity, &short] {
            assert!(PublicKey::parse(text).is_err(), "{text}");
        }
    }
}

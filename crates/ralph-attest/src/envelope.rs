//! The DSSE envelope: a payload, and a signature over its type and its bytes.

use crate::signing_key::{PublicKey, SIGNATURE_BYTES, SigningKey};
use base64ct::{Base64, Encoding};
use serde::{Deserialize, Serialize};

pub(crate) const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// A statement has some kilobytes.
pub const MAX_ENVELOPE_BYTES: usize = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    #[error("it is not a signed envelope: {0}")]
    Invalid(serde_json::Error),
    #[error("it is larger than 1 MB")]
    TooLarge,
    #[error("its payload has another type than `{PAYLOAD_TYPE}`")]
    PayloadType,
    #[error("it has {0} signatures instead of one")]
    SignatureCount(usize),
    #[error("its payload or its signature is not valid base64")]
    Encoding,
}

/// An envelope that was parsed or made. Whether its signature is genuine is another question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedEnvelope {
    payload: Vec<u8>,
    key_id: String,
    signature: [u8; SIGNATURE_BYTES],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct EnvelopeFields {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvelopeSignature {
    keyid: String,
    sig: String,
}

impl SignedEnvelope {
    pub fn sign(payload: Vec<u8>, key: &SigningKey) -> Self {
        let signature = key.sign(&authenticated_bytes(&payload));
        Self { payload, key_id: key.public().id(), signature }
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        if bytes.len() > MAX_ENVELOPE_BYTES {
            return Err(EnvelopeError::TooLarge);
        }
        let fields: EnvelopeFields =
            serde_json::from_slice(bytes).map_err(EnvelopeError::Invalid)?;
        if fields.payload_type != PAYLOAD_TYPE {
            return Err(EnvelopeError::PayloadType);
        }
        let [signed] = fields.signatures.as_slice() else {
            return Err(EnvelopeError::SignatureCount(fields.signatures.len()));
        };
        let decode = |text: &str| Base64::decode_vec(text).map_err(|_| EnvelopeError::Encoding);
        let payload = decode(&fields.payload)?;
        let signature = decode(&signed.sig)?.try_into().map_err(|_| EnvelopeError::Encoding)?;
        Ok(Self { payload, key_id: signed.keyid.clone(), signature })
    }

    /// One line of JSON.
    pub fn to_json(&self) -> String {
        let signed = EnvelopeSignature {
            keyid: self.key_id.clone(),
            sig: Base64::encode_string(&self.signature),
        };
        let fields = EnvelopeFields {
            payload: Base64::encode_string(&self.payload),
            payload_type: PAYLOAD_TYPE.to_string(),
            signatures: vec![signed],
        };
        // Strings always serialise.
        let line = serde_json::to_string(&fields).unwrap_or_default();
        format!("{line}\n")
    }

    /// The id that the envelope claims for its key.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The payload, if `key` signed it.
    pub fn verified_payload(&self, key: &PublicKey) -> Option<&[u8]> {
        let is_signed = key.verifies(&authenticated_bytes(&self.payload), &self.signature);
        is_signed.then_some(&self.payload)
    }
}

/// DSSE's pre-authentication encoding: lengths make it unambiguous, and the type is signed too.
fn authenticated_bytes(payload: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed([seed; 32])
    }

    #[test]
    fn an_envelope_survives_its_json_and_only_its_own_key_verifies_it() {
        let made = SignedEnvelope::sign(b"{}".to_vec(), &key(1));
        insta::assert_snapshot!(made.to_json(), @r#"{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"keyid":"34750f98bd59fcfc946da45aaabe933be154a4b5094e1c4abf42866505f3c97e","sig":"veLg0e+f4poyS3YRJakfMGqcWCOKpK/odygGjhTkwZv0V+Om/OfLlEQ57kTgEM0N02igz2ne/YdGZ1SOWajECA=="}]}"#);
        let read = SignedEnvelope::parse(made.to_json().as_bytes()).unwrap();
        assert_eq!(read, made);
        assert_eq!(read.verified_payload(&key(1).public()), Some(b"{}".as_slice()));
        assert_eq!(read.verified_payload(&key(2).public()), None);
    }

    #[test]
    fn what_is_not_exactly_an_envelope_is_refused() {
        let good = SignedEnvelope::sign(b"{}".to_vec(), &key(1)).to_json();
        let signature = good.find("\"signatures\":[").unwrap() + "\"signatures\":[".len();
        let one = good[signature..].trim_end().trim_end_matches("]}").to_string();
        let cases = [
            ("empty", String::new()),
            ("cut off", good[..good.len() / 2].to_string()),
            ("something after it", format!("{good}{good}")),
            ("another type", good.replace("in-toto", "other")),
            ("unknown field", good.replacen('{', "{\"extra\":1,", 1)),
            ("field twice", good.replacen('{', "{\"payload\":\"\",", 1)),
            ("no signature", good.replace(&one, "")),
            ("two signatures", good.replace(&one, &format!("{one},{one}"))),
            ("bad base64", good.replacen("e30=", "e3=0", 1)),
            ("not canonical base64", good.replacen("e30=", "e31=", 1)),
            ("too large", format!("{good}{}", " ".repeat(MAX_ENVELOPE_BYTES))),
        ];
        let mut refused = String::new();
        for (name, text) in cases {
            let error = SignedEnvelope::parse(text.as_bytes()).unwrap_err();
            refused.push_str(&format!("{name}: {error}\n"));
        }
        insta::assert_snapshot!(refused, @"
        empty: it is not a signed envelope: EOF while parsing a value at line 1 column 0
        cut off: it is not a signed envelope: EOF while parsing a string at line 1 column 126
        something after it: it is not a signed envelope: trailing characters at line 2 column 1
        another type: its payload has another type than `application/vnd.in-toto+json`
        unknown field: it is not a signed envelope: unknown field `extra`, expected one of `payload`, `payloadType`, `signatures` at line 1 column 8
        field twice: it is not a signed envelope: duplicate field `payload` at line 1 column 23
        no signature: it has 0 signatures instead of one
        two signatures: it has 2 signatures instead of one
        bad base64: its payload or its signature is not valid base64
        not canonical base64: its payload or its signature is not valid base64
        too large: it is larger than 1 MB
        ");
    }
}

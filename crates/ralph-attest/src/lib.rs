//! Statements about runs: what a run was judged by, on which content, and with which results. A statement is an in-toto
//! Statement v1 in a signed DSSE envelope.
//!
//! A statement contains only what the journal of its run records, apart from ids that anyone can look up in the
//! repository. Its bytes depend on nothing else: the same run has the same statement whenever it is made. Everything in
//! a statement that is checked is foreign: it is bounded, and nothing of it is used before its signature is verified.

mod attested_policy;
mod build_statement;
mod consistency;
mod envelope;
mod run_statement;
mod signing_key;
mod statement_checks;

pub use build_statement::{AttestError, AttestRequest, BuiltStatement, build_statement};
pub use envelope::{EnvelopeError, MAX_ENVELOPE_BYTES, SignedEnvelope};
pub use run_statement::{
    AttestedGate, AttestedGoal, AttestedPolicy, AttestedProof, AttestedStatus, RunPredicate,
    RunStatement, StatementError, StatementSubject,
};
pub use signing_key::{
    PublicKey, PublicKeyError, SigningKey, SigningKeyError, load_public_key, load_signing_key,
};
pub use statement_checks::{
    CheckTarget, CheckedStatement, StatementCheck, StatementExpectations, check_envelope,
};

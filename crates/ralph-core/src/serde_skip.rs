//! Conditions under which serde omits a field, so that records without it stay byte-identical to those of older
//! versions.

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
pub(crate) fn is_zero_offset(offset: &u64) -> bool {
    *offset == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
pub(crate) fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
pub(crate) fn is_true(flag: &bool) -> bool {
    *flag
}

/// The value of a flag that is omitted if it is set.
pub(crate) fn always() -> bool {
    true
}

//! Parsers for the values of command-line options. An error text is printed as the hint of a usage error.

use crate::cmd::report::ReportFormat;
use ralph_attest::AttestedStatus;
use ralph_core::limits::LimitUnit;
use ralph_core::policy::MergeThreshold;
use ralph_policy::trust::MIN_HASH_PREFIX;
use std::net::IpAddr;

pub(crate) fn parse_merge_threshold(text: &str) -> Result<MergeThreshold, String> {
    match text {
        "verified" => Ok(MergeThreshold::Verified),
        "green" => Ok(MergeThreshold::Green),
        _ => Err("expected `verified` or `green`".to_string()),
    }
}

pub(crate) fn parse_attested_status(text: &str) -> Result<AttestedStatus, String> {
    let all = [AttestedStatus::Verified, AttestedStatus::Green, AttestedStatus::Claimed];
    let found = all.into_iter().find(|status| status.name() == text);
    found.ok_or_else(|| "expected `verified`, `green` or `claimed`".to_string())
}

pub(crate) fn parse_report_format(text: &str) -> Result<ReportFormat, String> {
    match text {
        "md" => Ok(ReportFormat::Markdown),
        "html" => Ok(ReportFormat::Html),
        "json" => Ok(ReportFormat::Json),
        _ => Err("expected `md`, `html` or `json`".to_string()),
    }
}

/// The hash of a policy, or enough of its beginning.
pub(crate) fn parse_policy_hash(text: &str) -> Result<String, String> {
    let is_hash =
        text.len() >= MIN_HASH_PREFIX && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let expected = || format!("expected at least {MIN_HASH_PREFIX} hexadecimal digits");
    if is_hash { Ok(text.to_ascii_lowercase()) } else { Err(expected()) }
}

/// A number from 0 to 10.
pub(crate) fn parse_complexity(text: &str) -> Result<u8, String> {
    let complexity = text.parse().ok().filter(|complexity| *complexity <= 10);
    complexity.ok_or_else(|| "expected a number from 0 to 10".to_string())
}

pub(crate) fn parse_count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected a whole number".to_string())
}

pub(crate) fn parse_positive_count(text: &str) -> Result<u32, String> {
    parse_count(text).and_then(|count| {
        if count > 0 { Ok(count) } else { Err("expected at least 1".to_string()) }
    })
}

pub(crate) fn parse_hunk_count(text: &str) -> Result<u16, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("expected a number from 1 to {}", u16::MAX))
}

pub(crate) fn parse_port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("expected a number from 0 to {}", u16::MAX))
}

pub(crate) fn parse_ip_address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "expected an IP address, such as `0.0.0.0` or `::1`".to_string())
}

/// In milliseconds.
pub(crate) fn parse_duration(text: &str) -> Result<u64, String> {
    let unit = LimitUnit::Milliseconds;
    unit.parse(text).ok_or_else(|| format!("expected {}", unit.expected()))
}

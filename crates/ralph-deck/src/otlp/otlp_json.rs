//! The messages of OTLP as JSON, as far as ralph sends them. Field names and forms follow the mapping of proto3.

use serde::{Serialize, Serializer};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TraceRequest {
    pub resource_spans: [ResourceSpans; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceSpans {
    pub resource: OtlpResource,
    pub scope_spans: [ScopeSpans; 1],
}

#[derive(Debug, Serialize)]
pub(super) struct ScopeSpans {
    pub scope: OtlpScope,
    pub spans: Vec<OtlpSpan>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetricsRequest {
    pub resource_metrics: [ResourceMetrics; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceMetrics {
    pub resource: OtlpResource,
    pub scope_metrics: [ScopeMetrics; 1],
}

#[derive(Debug, Serialize)]
pub(super) struct ScopeMetrics {
    pub scope: OtlpScope,
    pub metrics: Vec<OtlpMetric>,
}

#[derive(Debug, Serialize)]
pub(super) struct OtlpMetric {
    pub name: String,
    pub description: String,
    pub unit: String,
    pub gauge: OtlpGauge,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OtlpGauge {
    pub data_points: Vec<OtlpDataPoint>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OtlpDataPoint {
    pub attributes: Vec<OtlpAttribute>,
    #[serde(serialize_with = "as_text")]
    pub time_unix_nano: u64,
    #[serde(flatten)]
    pub value: OtlpNumber,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum OtlpNumber {
    AsInt(#[serde(serialize_with = "as_text")] u64),
    AsDouble(f64),
}

#[derive(Debug, Serialize)]
pub(super) struct OtlpResource {
    pub attributes: Vec<OtlpAttribute>,
}

#[derive(Debug, Serialize)]
pub(super) struct OtlpScope {
    pub name: &'static str,
    pub version: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OtlpSpan {
    /// 16 bytes in hexadecimal.
    pub trace_id: String,
    /// 8 bytes in hexadecimal.
    pub span_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parent_span_id: String,
    pub name: String,
    /// 1 is internal.
    pub kind: u8,
    #[serde(serialize_with = "as_text")]
    pub start_time_unix_nano: u64,
    #[serde(serialize_with = "as_text")]
    pub end_time_unix_nano: u64,
    pub attributes: Vec<OtlpAttribute>,
    #[serde(skip_serializing_if = "OtlpStatus::is_unset")]
    pub status: OtlpStatus,
}

/// 0 is unset, 1 is ok, 2 is an error.
#[derive(Debug, Default, Serialize)]
pub(super) struct OtlpStatus {
    pub code: u8,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl OtlpStatus {
    fn is_unset(&self) -> bool {
        self.code == 0
    }
}

#[derive(Debug, Serialize)]
pub(super) struct OtlpAttribute {
    pub key: &'static str,
    pub value: OtlpValue,
}

#[derive(Debug, Serialize)]
pub(super) enum OtlpValue {
    #[serde(rename = "stringValue")]
    Text(String),
    #[serde(rename = "boolValue")]
    Flag(bool),
    #[serde(rename = "intValue", serialize_with = "as_text")]
    Whole(u64),
    #[serde(rename = "doubleValue")]
    Decimal(f64),
}

/// Numbers of 64 bits are strings in the JSON form of proto3.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn as_text<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

pub(super) fn text_attribute(key: &'static str, text: impl Into<String>) -> OtlpAttribute {
    OtlpAttribute { key, value: OtlpValue::Text(text.into()) }
}

pub(super) fn int_attribute(key: &'static str, number: impl Into<u64>) -> OtlpAttribute {
    OtlpAttribute { key, value: OtlpValue::Whole(number.into()) }
}

pub(super) const SCOPE: OtlpScope = OtlpScope { name: "ralph", version: env!("CARGO_PKG_VERSION") };

pub(super) fn service() -> OtlpAttribute {
    text_attribute("service.name", "ralph")
}

/// A value of the messages above, which consist of texts, numbers and lists; serialising them cannot fail.
pub(super) fn body(request: &impl Serialize) -> String {
    serde_json::to_string(request).unwrap_or_default()
}

/// Times before 1970 or after 2554 do not occur.
pub(super) fn nanoseconds(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

//! The metrics of all runs as one request.

use super::otlp_json::{
    MetricsRequest, OtlpDataPoint, OtlpGauge, OtlpMetric, OtlpNumber, OtlpResource,
    ResourceMetrics, SCOPE, ScopeMetrics, body, nanoseconds, service, text_attribute,
};
use crate::page::metrics::{MetricFamily, MetricSample, MetricValue};
use crate::wording::micro_usd_as_usd;
use ralph_core::redact::Redactor;

/// The body of one request to [`METRICS_PATH`](super::METRICS_PATH).
pub fn metric_request(families: &[MetricFamily], redactor: &Redactor, now_ms: u64) -> String {
    let metrics = families.iter().filter(|family| !family.samples.is_empty());
    let metrics = metrics.map(|family| metric(family, redactor, now_ms)).collect();
    body(&MetricsRequest {
        resource_metrics: [ResourceMetrics {
            resource: OtlpResource { attributes: vec![service()] },
            scope_metrics: [ScopeMetrics { scope: SCOPE, metrics }],
        }],
    })
}

fn metric(family: &MetricFamily, redactor: &Redactor, now_ms: u64) -> OtlpMetric {
    let point = |sample: &MetricSample| OtlpDataPoint {
        attributes: sample
            .labels
            .iter()
            .map(|(label, value)| text_attribute(label, redactor.redact(value)))
            .collect(),
        time_unix_nano: nanoseconds(now_ms),
        value: match sample.value {
            MetricValue::Count(count) => OtlpNumber::AsInt(count),
            // A decimal number with three digits is exact enough as a double.
            MetricValue::Milliseconds(_) => {
                OtlpNumber::AsDouble(sample.value.decimal().parse().unwrap_or(0.0))
            }
            MetricValue::MicroUsd(micro) => OtlpNumber::AsDouble(micro_usd_as_usd(micro)),
        },
    };
    OtlpMetric {
        // OpenTelemetry separates the parts of a name by dots.
        name: family.name.replacen('_', ".", 1),
        description: family.help.to_string(),
        unit: family.unit.to_string(),
        gauge: OtlpGauge { data_points: family.samples.iter().map(point).collect() },
    }
}

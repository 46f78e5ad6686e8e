//! Context and spending over time, reduced to what a chart can show.

use super::spend_meter::SpendMeter;
use crate::json_units;
use ralph_core::record::{JournalEntry, RunChange};
use serde::{Serialize, Serializer};

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurvePoint {
    pub at_ms: u64,
    pub value: u64,
}

/// How full the context was at each stop, in thousandths. At most `most` points.
pub fn context_curve(entries: &[JournalEntry], most: usize) -> Vec<CurvePoint> {
    let points = entries.iter().filter_map(|entry| {
        let RunChange::Decided(decided) = &entry.change else { return None };
        let permille = decided.observed.as_ref()?.context_permille()?;
        Some(CurvePoint { at_ms: entry.at_ms, value: u64::from(permille) })
    });
    reduce_points(points.collect(), most)
}

/// What was spent in total, in millionths of a dollar. At most `most` points.
pub fn spend_curve(entries: &[JournalEntry], most: usize) -> Vec<CurvePoint> {
    let mut meter = SpendMeter::default();
    let mut points: Vec<CurvePoint> = Vec::new();
    for entry in entries {
        meter.read(&entry.change);
        let Some(value) = meter.total() else { continue };
        if points.last().is_none_or(|last| last.value != value) {
            points.push(CurvePoint { at_ms: entry.at_ms, value });
        }
    }
    reduce_points(points, most)
}

/// A point of the context in JSON.
#[derive(Serialize)]
struct ContextPointView {
    #[serde(serialize_with = "json_units::time")]
    at: u64,
    share: f64,
}

/// A point of the spending in JSON.
#[derive(Serialize)]
struct SpendPointView {
    #[serde(serialize_with = "json_units::time")]
    at: u64,
    #[serde(serialize_with = "json_units::usd")]
    usd: u64,
}

pub(super) fn context_points<S: Serializer>(
    points: &[CurvePoint],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let permille = |point: &CurvePoint| u32::try_from(point.value).unwrap_or(u32::MAX);
    serializer.collect_seq(points.iter().map(|point| ContextPointView {
        at: point.at_ms,
        share: json_units::permille_as_share(permille(point)),
    }))
}

pub(super) fn spend_points<S: Serializer>(
    points: &[CurvePoint],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let view = |point: &CurvePoint| SpendPointView { at: point.at_ms, usd: point.value };
    serializer.collect_seq(points.iter().map(view))
}

/// Keeps the least and the greatest value of each stretch of time, and the first and last point.
fn reduce_points(points: Vec<CurvePoint>, most: usize) -> Vec<CurvePoint> {
    let stretches = (most / 2).max(1);
    if points.len() <= most {
        return points;
    }
    let size = points.len().div_ceil(stretches);
    let mut reduced = Vec::with_capacity(most);
    for stretch in points.chunks(size) {
        let least = stretch.iter().enumerate().min_by_key(|(_, point)| point.value);
        let greatest = stretch.iter().enumerate().max_by_key(|(_, point)| point.value);
        let (Some((low, least)), Some((high, greatest))) = (least, greatest) else { continue };
        match low.cmp(&high) {
            std::cmp::Ordering::Less => reduced.extend([*least, *greatest]),
            std::cmp::Ordering::Equal => reduced.push(*least),
            std::cmp::Ordering::Greater => reduced.extend([*greatest, *least]),
        }
    }
    reduced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_its_extremes() {
        let points: Vec<_> = (0..1_000_u64)
            .map(|at_ms| CurvePoint { at_ms, value: if at_ms == 517 { 9_999 } else { at_ms % 7 } })
            .collect();
        let reduced = reduce_points(points, 100);
        assert!(reduced.len() <= 100);
        assert!(reduced.iter().any(|point| point.value == 9_999));
        assert!(reduced.is_sorted_by_key(|point| point.at_ms));
    }
}

use super::*;
use proptest::prelude::*;
use ralph_host::claude::PROFILE;
use ralph_host::stream::{StreamLine, StreamModelUsage, TokenUsage};
use serde_json::{Value, json};

fn opening() -> TallyStart {
    TallyStart {
        session: SessionId::parse("5999882c").unwrap(),
        source: CostSource::Agent,
        known: Spending::default(),
        turns: 0,
        carried: Spending::default(),
        worst_turn_micro_usd: 1_000_000,
    }
}

fn resumed(micro_usd: u64, tokens: u64, turns: u32) -> TallyStart {
    let known = Spending { micro_usd, tokens };
    TallyStart { known, turns, carried: known, ..opening() }
}

fn model(input: u64, output: u64, usd: f64) -> Value {
    json!({ "claude-opus-5-5": {
        "inputTokens": input, "outputTokens": output, "cacheReadInputTokens": 0,
        "cacheCreationInputTokens": 0, "webSearchRequests": 0, "costUSD": usd, "contextWindow": 1_000_000,
    } })
}

fn outcome(line: &Value) -> TurnResult {
    let mut line = line.clone();
    line["type"] = json!("result");
    let StreamLine::Result(outcome) = (PROFILE.stream.parse_line)(line.to_string().as_bytes())
    else {
        panic!("{line} is a result");
    };
    *outcome
}

/// A result line with the cost figures that a real client sends.
fn result(total: (u64, u64, f64), since: (u64, u64, f64)) -> TurnResult {
    outcome(&json!({
        "type": "result", "subtype": "success", "num_turns": 1, "total_cost_usd": total.2,
        "usage": { "input_tokens": since.0, "output_tokens": since.1, "cache_read_input_tokens": 0,
                   "cache_creation_input_tokens": 0 },
        "modelUsage": model(total.0, total.1, total.2),
        "model_usage_since_last_result": model(since.0, since.1, since.2),
    }))
}

fn without_since(outcome: TurnResult) -> TurnResult {
    TurnResult { since: Vec::new(), ..outcome }
}

fn call(id: &str, tokens: u64) -> StreamAssistant {
    let usage = TokenUsage { cache_read: tokens, ..TokenUsage::default() };
    StreamAssistant {
        message: Some(id.to_string()),
        usage: Some(usage),
        ..StreamAssistant::default()
    }
}

/// The figures that reach the journal: cost, tokens, turns, and whether the host reported or ralph assumed them.
fn figures(metered: &MeterReading) -> (u64, u64, u32, MeterBasis) {
    (metered.micro_usd, metered.tokens, metered.turns, metered.meter)
}

use MeterBasis::{Assumed, Told};

/// R-K1b: figures from a session of the real client, with a subagent in the second turn, resumed for the fourth.
#[test]
fn a_session_is_metered_from_its_results() {
    let bills = [
        result((1000, 10, 0.0042), (1000, 10, 0.0042)),
        result((21_000, 210, 0.0882), (20_000, 200, 0.083_999_999_999_999_99)),
        result((25_000, 250, 0.105), (4000, 40, 0.0168)),
    ];
    let fourth = result((30_000, 300, 0.126), (5000, 50, 0.021));
    // An older client reports only its totals.
    for forget in [|bill: TurnResult| bill, without_since] {
        let mut tally = CostTally::new(opening());
        let seen = bills.clone().map(|bill| figures(&tally.bill_turn(&forget(bill))));
        let third = (105_000, 25_250, 3, Told);
        assert_eq!(seen, [(4200, 1010, 1, Told), (88_200, 21_210, 2, Told), third]);
        let mut tally = CostTally::new(resumed(105_000, 25_250, 3));
        assert_eq!(figures(&tally.bill_turn(&forget(fourth.clone()))), (126_000, 30_300, 4, Told));
    }
}

/// R-K1b: a client that was killed restarts its totals, and the cost from before is kept.
#[test]
fn totals_that_restart_add_up() {
    let after = result((5000, 50, 0.021), (5000, 50, 0.021));
    for bill in [after.clone(), without_since(after)] {
        let mut tally = CostTally::new(resumed(105_000, 25_250, 3));
        assert_eq!(figures(&tally.bill_turn(&bill)), (126_000, 30_300, 4, Told));
    }
    // `/clear` does the same within a process.
    let mut tally = CostTally::new(opening());
    tally.bill_turn(&without_since(result((1000, 0, 0.5), (1000, 0, 0.5))));
    let cleared = without_since(result((300, 0, 0.1), (300, 0, 0.1)));
    assert_eq!(figures(&tally.bill_turn(&cleared)), (600_000, 1300, 2, Told));
    // A fork continues its parent's totals, but is a session of its own.
    let forked = TallyStart { known: Spending::default(), turns: 0, ..resumed(126_000, 30_300, 0) };
    let bill = result((35_000, 350, 0.147), (5000, 50, 0.021));
    for bill in [bill.clone(), without_since(bill)] {
        assert_eq!(
            figures(&CostTally::new(forked.clone()).bill_turn(&bill)),
            (21_000, 5050, 1, Told)
        );
    }
}

/// R-K1b: for figures that the host does not report, the worst case is assumed.
#[test]
fn unknown_usage_is_the_worst_case() {
    for (name, line, expected) in [
        ("no figures", json!({ "num_turns": 3 }), (1_000_000, 0, 1, Assumed)),
        ("nothing at all", json!({}), (1_000_000, 0, 1, Assumed)),
        ("odd", json!({ "total_cost_usd": "1", "usage": [] }), (1_000_000, 0, 1, Assumed)),
        ("negative", json!({ "total_cost_usd": -1 }), (1_000_000, 0, 1, Assumed)),
        (
            "tokens without money",
            json!({ "usage": { "input_tokens": 7, "cache_read_input_tokens": 9 } }),
            (1_000_000, 16, 1, Assumed),
        ),
        (
            "a model without a price",
            json!({ "model_usage_since_last_result": { "m": { "inputTokens": 5 } } }),
            (1_000_000, 5, 1, Assumed),
        ),
        (
            "an error before any token",
            json!({ "total_cost_usd": 0, "num_turns": 1 }),
            (0, 0, 1, Told),
        ),
        ("no such session", json!({ "num_turns": 0, "is_error": true }), (0, 0, 0, Told)),
        ("a summary", json!({ "num_turns": 0, "total_cost_usd": 0.48 }), (480_000, 0, 0, Told)),
    ] {
        let mut tally = CostTally::new(opening());
        assert_eq!(figures(&tally.bill_turn(&outcome(&line))), expected, "{name}");
    }
}

/// R-K1b: between two results tokens are counted from the agent's messages, once per message. The cost is the client's
/// own figure, else estimated at the highest price, else the worst case.
#[test]
fn a_turn_in_flight_is_counted() {
    let mut tally = CostTally::new(opening());
    tally.turn_started();
    tally.count_call(&call("msg_1", 1000));
    tally.count_call(&call("msg_1", 1001));
    tally.count_call(&call("msg_1", 1000));
    assert_eq!(figures(&tally.estimate_so_far()), (1_000_000, 1001, 0, Assumed));
    tally.set_turn_total(4000);
    assert_eq!(figures(&tally.estimate_so_far()), (4000, 1001, 0, Told));
    tally.bill_turn(&result((1000, 10, 0.0042), (1000, 10, 0.0042)));
    assert_eq!(figures(&tally.estimate_so_far()), (4200, 1010, 1, Told));
    tally.count_call(&call("msg_2", 2020));
    assert_eq!(figures(&tally.estimate_so_far()), (4200 + 8400, 3030, 1, Assumed));
    // The bill replaces the estimate.
    let cheap = result((3000, 30, 0.005), (2000, 20, 0.0008));
    assert_eq!(figures(&tally.bill_turn(&cheap)), (5000, 3030, 2, Told));
    // The highest price is used.
    tally.count_call(&call("msg_3", 1010));
    assert_eq!(figures(&tally.estimate_so_far()), (5000 + 4200, 4040, 2, Assumed));
}

/// R-K1b: an unbilled turn is not free.
#[test]
fn an_unfinished_turn_is_charged() {
    let mut tally = CostTally::new(opening());
    assert_eq!(tally.charge_unfinished_turn(), None);
    tally.turn_started();
    assert_eq!(
        tally.charge_unfinished_turn().as_ref().map(figures),
        Some((1_000_000, 0, 0, Assumed))
    );
    assert_eq!(tally.charge_unfinished_turn(), None);
    // The recorded cost is no price, because it may be assumed; the client's own total continues from it.
    let mut tally = CostTally::new(resumed(10_000, 1000, 1));
    tally.turn_started();
    tally.count_call(&call("msg_1", 50));
    tally.set_turn_total(12_000);
    assert_eq!(
        tally.charge_unfinished_turn().as_ref().map(figures),
        Some((12_000, 1050, 1, Assumed))
    );
    // After a kill the total starts at zero.
    let mut tally = CostTally::new(resumed(10_000, 1000, 1));
    tally.turn_started();
    tally.count_call(&call("msg_1", 50));
    tally.set_turn_total(500);
    assert_eq!(
        tally.charge_unfinished_turn().as_ref().map(figures),
        Some((10_500, 1050, 1, Assumed))
    );
}

/// R-K1b: only messages with usage figures count, and only up to the maximum number.
#[test]
fn only_messages_with_usage_count() {
    let mut tally = CostTally::new(opening());
    for message in [
        json!({ "id": "a", "model": "<synthetic>", "usage": { "input_tokens": 5 } }),
        json!({ "id": "b", "content": [{ "type": "text", "text": "usage: {\"input_tokens\": 9}" }] }),
        json!({ "usage": { "input_tokens": 5 } }),
        json!({ "id": "c", "usage": { "input_tokens": -5, "output_tokens": "7" } }),
    ] {
        let line = json!({ "type": "assistant", "message": message });
        if let StreamLine::Assistant(line) =
            (PROFILE.stream.parse_line)(line.to_string().as_bytes())
        {
            tally.count_call(&line);
        }
    }
    assert_eq!(tally.estimate_so_far().tokens, 0);
    for number in 0..2 * MOST_CALLS {
        tally.count_call(&call(&number.to_string(), 1));
    }
    tally.count_call(&call(&"x".repeat(LONGEST_ID + 1), 1));
    // One slot is taken by the message with zero tokens.
    assert_eq!(tally.estimate_so_far().tokens, 9999);
}

/// R-K1a: the client's own cap is the remaining budget of the run or of the day.
#[test]
fn the_client_is_capped_at_the_remaining_budget() {
    let caps = |most: Option<u64>, spent, today| {
        let limits = RunLimits { max_cost_micro_usd: most, ..RunLimits::DEFAULT };
        native_caps(&limits, Spending { micro_usd: spent, tokens: 0 }, today).max_budget_usd
    };
    for (most, spent, today, expected) in [
        (Some(20_000_000), 0, None, Some("20.000000")),
        (Some(20_000_000), 1_820_001, None, Some("18.179999")),
        (Some(20_000_000), 0, Some(5_000_000), Some("5.000000")),
        (None, 7, Some(40), Some("0.000040")),
        (Some(5), 9, None, Some("0.000001")),
        (None, 7, None, None),
    ] {
        assert_eq!(caps(most, spent, today).as_deref(), expected);
    }
}

#[test]
fn the_worst_turn_is_the_most_expensive_so_far() {
    let of = |seen| {
        worst_turn_cost(
            &DriveState { worst_turn_micro_usd: seen, ..DriveState::default() },
            &DriveSettings::DEFAULT,
        )
    };
    assert_eq!((of(0), of(3)), (1_000_000, 3));
}

proptest! {
    /// Whatever a client reports, the recorded cost never shrinks and nothing panics.
    #[test]
    fn recorded_cost_never_shrinks(
        known in (any::<u64>(), any::<u64>()),
        bills in proptest::collection::vec(
            (any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<(u64, u64)>>(), any::<Option<u64>>()),
            0..20,
        ),
        calls in proptest::collection::vec(any::<u64>(), 0..20),
    ) {
        let mut tally = CostTally::new(resumed(known.0, known.1, 0));
        let mut before = tally.spent();
        for (total_micro_usd, total_tokens, since, turns) in bills {
            for (number, tokens) in calls.iter().enumerate() {
                tally.count_call(&call(&number.to_string(), *tokens));
            }
            let so_far = tally.estimate_so_far();
            prop_assert!(so_far.micro_usd >= before.micro_usd && so_far.tokens >= before.tokens);
            let model = |(micro_usd, input)| StreamModelUsage {
                model: String::new(),
                usage: TokenUsage { input, ..TokenUsage::default() },
                micro_usd,
                window: None,
            };
            let now = tally.bill_turn(&TurnResult {
                micro_usd: total_micro_usd,
                models: total_tokens.map(|tokens| model((0, tokens))).into_iter().collect(),
                since: since.map(model).into_iter().collect(),
                num_turns: turns,
                ..TurnResult::default()
            });
            prop_assert!(now.micro_usd >= before.micro_usd && now.tokens >= before.tokens);
            before = tally.spent();
        }
    }
}

//! The pages that update by themselves.

use crate::access::SessionMark;
use crate::board_source;
use crate::page_region::LiveView;
use crate::run_source;
use crate::server_state::ServerState;
use crate::template::run_forms::FormKeys;
use crate::template::{board, queues, run};
use ralph_core::id::RunId;
use ralph_deck::view::queue_status;
use std::collections::BTreeSet;

/// Changes of further queues appear with the next refresh.
const MAX_WATCHED_QUEUES: usize = 100;

/// A page that a browser asks updates for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LivePage {
    /// With the runs that ended since then.
    Board {
        seen_ms: u64,
    },
    Run(RunId),
    Queues,
}

impl LivePage {
    /// The page at this path, if it updates by itself.
    pub(crate) fn at_path(path: &str, seen_ms: u64) -> Option<Self> {
        match path.strip_prefix("/run/") {
            Some(run) => RunId::parse(run).map(Self::Run),
            None => match path {
                "/" => Some(Self::Board { seen_ms }),
                "/queues" => Some(Self::Queues),
                _ => None,
            },
        }
    }

    /// Where the page gets its updates.
    pub(crate) fn events_path(&self) -> String {
        match self {
            Self::Board { seen_ms } => format!("/events?page=/&seen={seen_ms}"),
            Self::Run(run) => format!("/events?page=/run/{run}"),
            Self::Queues => "/events?page=/queues".to_string(),
        }
    }

    /// The page for this session, whose forms have its tokens. `None` if it does not exist.
    pub(crate) fn load(&self, state: &ServerState, session: SessionMark) -> Option<LiveView> {
        match self {
            Self::Board { seen_ms } => {
                let (page, directories) = board_source::load_board(state, *seen_ms)?;
                Some(LiveView {
                    title: board::board_title(&page),
                    news: board::board_news(&page),
                    regions: board::board_regions(&page),
                    directories,
                })
            }
            Self::Run(id) => {
                let details = run_source::load_run(state, id)?;
                let forms = FormKeys { access: &state.access, session };
                Some(LiveView {
                    title: run::run_title(&details.page),
                    news: run::run_news(&details.page),
                    regions: run::run_regions(&details, &forms),
                    directories: BTreeSet::from([state.home.run(id).directory().to_path_buf()]),
                })
            }
            Self::Queues => {
                let (queues, unreadable) = queue_status::all_queues(&state.home);
                let home = state.home.queues();
                let own = queues.iter().map(|queue| home.join(queue.id.as_str()));
                let mut directories: BTreeSet<_> = own.take(MAX_WATCHED_QUEUES).collect();
                directories.insert(home);
                Some(LiveView {
                    title: "Queues · ralph".to_string(),
                    news: None,
                    regions: queues::queues_regions(&queues, unreadable.len()),
                    directories,
                })
            }
        }
    }
}

//! Why requests are refused.

use axum::http::StatusCode;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusedRequest {
    WrongHost,
    WrongMethod,
    ForeignPage,
    NoSession,
    WrongLink,
    /// The session that the link opened has ended.
    UsedLink,
    StaleForm,
    WrongForm,
    TooLarge,
    TooSlow,
    NotFound,
    Busy,
    /// Not every run was read in time.
    Incomplete,
    Failed,
}

impl RefusedRequest {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::WrongHost => StatusCode::MISDIRECTED_REQUEST,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::ForeignPage
            | Self::NoSession
            | Self::StaleForm
            | Self::WrongLink
            | Self::UsedLink => StatusCode::FORBIDDEN,
            Self::WrongForm => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Busy | Self::Incomplete => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

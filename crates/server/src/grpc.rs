//! The gRPC front door: the same checks and decisions as over JSON. A denial is an answer; only a check that could not be
//! put is an error, with the API's code in its message.

use std::pin::Pin;

use http::StatusCode;
use node::{AskedId, Question};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};
use wire::v1 as proto;
use wire::v1::check_result::Result as ResultKind;
use wire::v1::rate_limiter_server::RateLimiter;

use crate::access::{Caller, Scope};
use crate::body::{DecisionBody, Told};
use crate::check::{Front, not_put_rejection};
use crate::code::{Code, Rejection};
use crate::json::{AskedCheck, BATCH_MAX, DEADLINE_MS_MAX, DOMAIN_DEFAULT, check_id};
use crate::meter::Api;

/// Batches of one stream that are decided at once; more wait in the transport.
pub const STREAM_BATCHES_IN_FLIGHT_MAX: usize = 32;

/// The service.
#[derive(Clone, Debug)]
pub struct Grpc {
    /// What it shares with the other doors.
    pub front: Front,
}

/// A check from the wire: what JSON can say, and what only SDKs say.
struct GrpcCheck {
    asked: AskedCheck,
    binary: Option<(u128, u8)>,
}

#[tonic::async_trait]
impl RateLimiter for Grpc {
    async fn check(&self, request: Request<proto::CheckRequest>) -> Result<Response<proto::Decision>, Status> {
        let timer = self.front.meter.start(Api::GrpcCheck);
        let result = self.answer_check(request).await;
        timer.stop(result.as_ref().map_or_else(status_of_error, |decision| status_of_decision(decision.get_ref())));
        result
    }

    async fn check_batch(
        &self,
        request: Request<proto::CheckBatchRequest>,
    ) -> Result<Response<proto::CheckBatchResponse>, Status> {
        let timer = self.front.meter.start(Api::GrpcBatch);
        let result = self.answer_batch(request).await;
        timer.stop(result.as_ref().map_or_else(status_of_error, |_| 200));
        result.map(Response::new)
    }

    type CheckStreamStream = Pin<Box<dyn Stream<Item = Result<proto::CheckBatchResponse, Status>> + Send>>;

    async fn check_stream(
        &self,
        request: Request<Streaming<proto::CheckBatchRequest>>,
    ) -> Result<Response<Self::CheckStreamStream>, Status> {
        let admitted = self.admit(&request).map(Caller::standing);
        let caller = admitted.inspect_err(|status| {
            self.front.meter.start(Api::GrpcStream).stop(status_of_error(status));
        })?;
        let service = self.clone();
        let answers = request.into_inner().map(move |batch| {
            let service = service.clone();
            async move {
                let timer = service.front.meter.start(Api::GrpcStream);
                let answer = match batch {
                    Ok(batch) => service.decide_batch(batch, service.front.access.caller(caller)).await,
                    Err(status) => Err(status),
                };
                timer.stop(answer.as_ref().map_or_else(status_of_error, |_| 200));
                answer
            }
        });
        // Answers leave as they are ready; each carries its batch's number.
        let answers = futures_util::StreamExt::buffer_unordered(answers, STREAM_BATCHES_IN_FLIGHT_MAX);
        Ok(Response::new(Box::pin(answers)))
    }
}

impl Grpc {
    fn admit<T>(&self, request: &Request<T>) -> Result<Caller<'_>, Status> {
        let peer = request.extensions().get().copied();
        let admitted = self.front.access.at_api(request.metadata().as_ref(), peer, Scope::Check);
        admitted.map_err(|rejection| status_of(&error_of(&rejection)))
    }

    async fn answer_check(&self, request: Request<proto::CheckRequest>) -> Result<Response<proto::Decision>, Status> {
        let caller = self.admit(&request)?;
        let mut results = self.decide(vec![request.into_inner()], caller, false).await;
        match results.pop().and_then(|result| result.result) {
            Some(ResultKind::Decision(decision)) => Ok(Response::new(decision)),
            Some(ResultKind::Error(error)) => Err(status_of(&error)),
            None => Err(Status::internal("no result for a check")),
        }
    }

    async fn answer_batch(
        &self,
        request: Request<proto::CheckBatchRequest>,
    ) -> Result<proto::CheckBatchResponse, Status> {
        let caller = self.admit(&request)?;
        self.decide_batch(request.into_inner(), caller).await
    }

    async fn decide_batch(
        &self,
        batch: proto::CheckBatchRequest,
        caller: Caller<'_>,
    ) -> Result<proto::CheckBatchResponse, Status> {
        if batch.checks.len() > BATCH_MAX {
            let detail = format!(
                "{}: {} checks; at most {BATCH_MAX} in one batch",
                Code::BatchTooLarge.as_str(),
                batch.checks.len()
            );
            return Err(Status::invalid_argument(detail));
        }
        let number = batch.number;
        Ok(proto::CheckBatchResponse { number, results: self.decide(batch.checks, caller, true).await })
    }

    /// Decides these checks, one result for each, in order. Fields are named with their place when there may be several.
    async fn decide(
        &self,
        checks: Vec<proto::CheckRequest>,
        caller: Caller<'_>,
        several: bool,
    ) -> Vec<proto::CheckResult> {
        let node = &*self.front.node;
        let place = |index: usize| if several { format!("checks[{index}].") } else { String::new() };
        let items: Vec<_> =
            checks.into_iter().enumerate().map(|(index, check)| check_from_proto(check, &place(index))).collect();
        let mut questions = Vec::with_capacity(items.len());
        let mut places = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let question =
                item.as_ref().map_err(Clone::clone).and_then(|check| self.question_of(check, caller, &place(index)));
            places.push(question.map(|question| {
                questions.push(question);
                questions.len() - 1
            }));
        }
        let checked = node.check(&questions).await;
        let results = places.into_iter().zip(&items).enumerate().map(|(index, (at, item))| match (at, item) {
            (Ok(at), Ok(check)) => {
                let (decision, policies) = checked.decision(at);
                let asked = &check.asked;
                match decision.map(|decision| Told::new(decision, policies, &asked.domain, asked.id.as_deref(), node)) {
                    Ok(Some(told)) => decision_result(told.body()),
                    Ok(None) => error_result(&unknown_domain()),
                    Err(not_put) => error_result(&not_put_rejection(not_put, asked, &place(index))),
                }
            }
            (Err(rejection), _) => error_result(&rejection),
            (Ok(_), Err(rejection)) => error_result(rejection),
        });
        results.collect()
    }

    fn question_of<'a>(
        &self,
        check: &'a GrpcCheck,
        caller: Caller<'a>,
        place: &str,
    ) -> Result<Question<'a>, Rejection> {
        caller.may_use(&check.asked.domain, &format!("{place}domain"))?;
        Ok(Question {
            domain: &check.asked.domain,
            attributes: check.asked.attributes(place)?,
            cost: check.asked.cost,
            id: match (&check.asked.id, check.binary) {
                (_, Some((id, attempt))) => AskedId::Binary { id, attempt },
                (Some(text), None) => AskedId::Text { text, caller: caller.name() },
                (None, None) => AskedId::Made,
            },
            budget: self.front.node.budget(check.asked.deadline),
        })
    }
}

fn check_from_proto(check: proto::CheckRequest, place: &str) -> Result<GrpcCheck, Rejection> {
    let field = |name: &str| format!("{place}{name}");
    let cost = check.cost.unwrap_or(1);
    if cost > limits::AMOUNT_MAX {
        let detail = format!("expected a whole number from 0 to {}, found {cost}", limits::AMOUNT_MAX);
        return Err(Rejection::of_field(Code::OutOfRange, field("cost"), detail));
    }
    if !check.id.is_empty() {
        check_id(&check.id, &field("id"))?;
    }
    let deadline_ms = check.deadline_ms.filter(|millis| *millis > DEADLINE_MS_MAX);
    if let Some(millis) = deadline_ms {
        let detail = format!("expected a whole number from 0 to {DEADLINE_MS_MAX}, found {millis}");
        return Err(Rejection::of_field(Code::OutOfRange, field("deadline_ms"), detail));
    }
    let binary = binary_id(&check.binary_id, check.attempt, place)?;
    if binary.is_some() && !check.id.is_empty() {
        let detail = "expected either id or binary_id: they would name two questions";
        return Err(Rejection::of_field(Code::OutOfRange, field("binary_id"), detail));
    }
    Ok(GrpcCheck {
        asked: AskedCheck {
            domain: if check.domain.is_empty() { DOMAIN_DEFAULT.to_owned() } else { check.domain },
            pairs: check.attributes.into_iter().collect(),
            cost,
            id: Some(check.id).filter(|id| !id.is_empty()),
            deadline: check.deadline_ms.map(limits::Span::from_millis),
        },
        binary,
    })
}

fn binary_id(bytes: &[u8], attempt: u32, place: &str) -> Result<Option<(u128, u8)>, Rejection> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let id: [u8; 16] = bytes.try_into().map_err(|_| {
        let detail = format!("expected 16 bytes, found {}", bytes.len());
        Rejection::of_field(Code::OutOfRange, format!("{place}binary_id"), detail)
    })?;
    let attempt = u8::try_from(attempt.max(1)).map_err(|_| {
        Rejection::of_field(Code::OutOfRange, format!("{place}attempt"), format!("expected 1 to 255, found {attempt}"))
    })?;
    Ok(Some((u128::from_be_bytes(id), attempt)))
}

fn unknown_domain() -> Rejection {
    Rejection::of_field(Code::UnknownDomain, "domain", "no policy for this domain")
}

fn error_result(rejection: &Rejection) -> proto::CheckResult {
    proto::CheckResult { result: Some(ResultKind::Error(error_of(rejection))) }
}

fn error_of(rejection: &Rejection) -> proto::CheckError {
    proto::CheckError {
        code: rejection.code.as_str().to_owned(),
        field: rejection.field.clone(),
        detail: rejection.detail.clone(),
    }
}

fn decision_result(body: DecisionBody<'_>) -> proto::CheckResult {
    let limits = body.limits.iter().map(|leg| proto::LimitDecision {
        limit: leg.limit.to_owned(),
        allowed: leg.allowed,
        capacity: leg.capacity,
        remaining: leg.remaining,
        retry_after_ms: leg.retry_after_ms,
        reset_after_ms: leg.reset_after_ms,
        reason: leg.reason.to_owned(),
        source: leg.source.to_owned(),
        owner: leg.owner.clone().unwrap_or_default(),
        epoch: leg.epoch.unwrap_or_default(),
        mode: leg.mode.to_owned(),
    });
    let decision = proto::Decision {
        allowed: body.allowed,
        limits: limits.collect(),
        id: body.id,
        domain: body.domain.to_owned(),
        cost: body.cost,
        limit: body.limit.unwrap_or_default().to_owned(),
        remaining: body.remaining,
        retry_after_ms: body.retry_after_ms,
        reset_after_ms: body.reset_after_ms,
        reason: body.reason.to_owned(),
        source: body.source.to_owned(),
        degraded: body.degraded,
        owner: body.owner.unwrap_or_default(),
        epoch: body.epoch.unwrap_or_default(),
        revision: body.revision,
        replayed: body.replayed,
    };
    proto::CheckResult { result: Some(ResultKind::Decision(decision)) }
}

/// The status that a decision has over HTTP, for the counters.
fn status_of_decision(decision: &proto::Decision) -> u16 {
    match (decision.allowed, decision.reason.as_str()) {
        (true, _) => 200,
        (false, "unavailable" | "recovering") => 503,
        (false, _) => 429,
    }
}

/// The status that a refused call has over HTTP, for the counters.
fn status_of_error(status: &Status) -> u16 {
    match status.code() {
        tonic::Code::NotFound => 404,
        tonic::Code::Unauthenticated => 401,
        tonic::Code::PermissionDenied => 403,
        tonic::Code::Ok
        | tonic::Code::Cancelled
        | tonic::Code::Unknown
        | tonic::Code::InvalidArgument
        | tonic::Code::DeadlineExceeded
        | tonic::Code::AlreadyExists
        | tonic::Code::ResourceExhausted
        | tonic::Code::FailedPrecondition
        | tonic::Code::Aborted
        | tonic::Code::OutOfRange
        | tonic::Code::Unimplemented
        | tonic::Code::Internal
        | tonic::Code::Unavailable
        | tonic::Code::DataLoss => 400,
    }
}

fn status_of(error: &proto::CheckError) -> Status {
    let message = match error.field.as_str() {
        "" => format!("{}: {}", error.code, error.detail),
        field => format!("{}: {field}: {}", error.code, error.detail),
    };
    match Code::of_word(&error.code).map(Code::status) {
        Some(StatusCode::NOT_FOUND) => Status::not_found(message),
        Some(StatusCode::UNAUTHORIZED) => Status::unauthenticated(message),
        Some(StatusCode::FORBIDDEN) => Status::permission_denied(message),
        Some(_) | None => Status::invalid_argument(message),
    }
}

//! What Kubernetes numbers the fields that are read here, and what it calls them in JSON.

/// A kind of message.
pub(super) struct Message {
    /// Its fields, as far as they are read.
    pub(super) fields: &'static [Field],
    /// Whether these are all: a field that is not among them is one of a later Kubernetes, then.
    pub(super) is_whole: bool,
}

/// A field of a message.
pub(super) struct Field {
    pub(super) number: u64,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) is_list: bool,
    /// Whether JSON shows it when there is nothing in it.
    pub(super) shows_nothing: bool,
}

/// What is in a field.
pub(super) enum Kind {
    Text,
    Number,
    Flag,
    /// Seconds and nanoseconds; none at all for a time that is not known.
    Moment,
    /// Texts by name.
    Texts,
    /// Numbers with a unit by name, which are texts inside.
    Amounts,
    Message(&'static Message),
    /// A message whose fields JSON shows as those of the one around it.
    Inside(&'static Message),
}

const fn field(number: u64, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, is_list: false, shows_nothing: false }
}

const fn text(number: u64, name: &'static str) -> Field {
    field(number, name, Kind::Text)
}

const fn moment(number: u64, name: &'static str) -> Field {
    field(number, name, Kind::Moment)
}

const fn one(number: u64, name: &'static str, message: &'static Message) -> Field {
    field(number, name, Kind::Message(message))
}

const fn many(number: u64, name: &'static str, message: &'static Message) -> Field {
    list(one(number, name, message))
}

const fn list(field: Field) -> Field {
    Field { is_list: true, ..field }
}

const fn shown(field: Field) -> Field {
    Field { shows_nothing: true, ..field }
}

const fn part(fields: &'static [Field]) -> Message {
    Message { fields, is_whole: false }
}

const fn whole(fields: &'static [Field]) -> Message {
    Message { fields, is_whole: true }
}

/// An object of which only metadata is sent.
pub(super) static PARTIAL: Message = part(&[one(1, "metadata", &METADATA)]);

/// A pod.
pub(super) static POD: Message =
    part(&[one(1, "metadata", &METADATA), one(2, "spec", &SPEC), one(3, "status", &STATUS)]);

/// What an API server says of a request.
pub(super) static ANSWER: Message = part(&[
    one(1, "metadata", &part(&[])),
    text(2, "status"),
    text(3, "message"),
    text(4, "reason"),
    field(6, "code", Kind::Number),
]);

/// Who wrote which field is left out.
static METADATA: Message = part(&[
    text(1, "name"),
    text(2, "generateName"),
    text(3, "namespace"),
    text(5, "uid"),
    text(6, "resourceVersion"),
    field(7, "generation", Kind::Number),
    moment(8, "creationTimestamp"),
    moment(9, "deletionTimestamp"),
    shown(field(10, "deletionGracePeriodSeconds", Kind::Number)),
    field(11, "labels", Kind::Texts),
    field(12, "annotations", Kind::Texts),
    many(13, "ownerReferences", &OWNER),
    list(text(14, "finalizers")),
]);

static OWNER: Message = part(&[
    shown(text(5, "apiVersion")),
    shown(text(1, "kind")),
    shown(text(3, "name")),
    shown(text(4, "uid")),
    shown(field(6, "controller", Kind::Flag)),
    shown(field(7, "blockOwnerDeletion", Kind::Flag)),
]);

/// Little of a specification is read while a pod runs.
static SPEC: Message = part(&[
    many(2, "containers", &CONTAINER),
    many(20, "initContainers", &CONTAINER),
    text(8, "serviceAccountName"),
    text(10, "nodeName"),
    field(32, "overhead", Kind::Amounts),
    many(34, "ephemeralContainers", &ADDED),
    one(40, "resources", &RESOURCES),
]);

static CONTAINER: Message =
    part(&[shown(text(1, "name")), one(8, "resources", &RESOURCES), text(24, "restartPolicy")]);

static ADDED: Message = part(&[field(1, "", Kind::Inside(&part(&[shown(text(1, "name"))])))]);

static STATUS: Message = whole(&[
    field(17, "observedGeneration", Kind::Number),
    text(1, "phase"),
    many(2, "conditions", &CONDITION),
    text(3, "message"),
    text(4, "reason"),
    text(11, "nominatedNodeName"),
    text(5, "hostIP"),
    many(16, "hostIPs", &ADDRESS),
    text(6, "podIP"),
    many(12, "podIPs", &ADDRESS),
    moment(7, "startTime"),
    many(10, "initContainerStatuses", &CONTAINER_STATUS),
    many(8, "containerStatuses", &CONTAINER_STATUS),
    text(9, "qosClass"),
    many(13, "ephemeralContainerStatuses", &CONTAINER_STATUS),
    text(14, "resize"),
    many(15, "resourceClaimStatuses", &CLAIM_STATUS),
    one(18, "extendedResourceClaimStatus", &EXTENDED_CLAIM_STATUS),
]);

static CONDITION: Message = whole(&[
    shown(text(1, "type")),
    field(7, "observedGeneration", Kind::Number),
    shown(text(2, "status")),
    moment(3, "lastProbeTime"),
    moment(4, "lastTransitionTime"),
    text(5, "reason"),
    text(6, "message"),
]);

static ADDRESS: Message = whole(&[shown(text(1, "ip"))]);

static CONTAINER_STATUS: Message = whole(&[
    shown(text(1, "name")),
    one(2, "state", &CONTAINER_STATE),
    one(3, "lastState", &CONTAINER_STATE),
    shown(field(4, "ready", Kind::Flag)),
    shown(field(5, "restartCount", Kind::Number)),
    shown(text(6, "image")),
    shown(text(7, "imageID")),
    text(8, "containerID"),
    shown(field(9, "started", Kind::Flag)),
    field(10, "allocatedResources", Kind::Amounts),
    one(11, "resources", &RESOURCES),
    many(12, "volumeMounts", &MOUNT_STATUS),
    one(13, "user", &USER),
    many(14, "allocatedResourcesStatus", &RESOURCE_STATUS),
    shown(text(15, "stopSignal")),
]);

static CONTAINER_STATE: Message = whole(&[
    one(1, "waiting", &whole(&[text(1, "reason"), text(2, "message")])),
    one(2, "running", &whole(&[moment(1, "startedAt")])),
    one(3, "terminated", &TERMINATED),
]);

static TERMINATED: Message = whole(&[
    shown(field(1, "exitCode", Kind::Number)),
    field(2, "signal", Kind::Number),
    text(3, "reason"),
    text(4, "message"),
    moment(5, "startedAt"),
    moment(6, "finishedAt"),
    text(7, "containerID"),
]);

static RESOURCES: Message = whole(&[
    field(1, "limits", Kind::Amounts),
    field(2, "requests", Kind::Amounts),
    many(3, "claims", &whole(&[shown(text(1, "name")), text(2, "request")])),
]);

static MOUNT_STATUS: Message = whole(&[
    shown(text(1, "name")),
    shown(text(2, "mountPath")),
    field(3, "readOnly", Kind::Flag),
    shown(text(4, "recursiveReadOnly")),
]);

static USER: Message = whole(&[one(
    1,
    "linux",
    &whole(&[
        shown(field(1, "uid", Kind::Number)),
        shown(field(2, "gid", Kind::Number)),
        list(field(3, "supplementalGroups", Kind::Number)),
    ]),
)]);

static RESOURCE_STATUS: Message = whole(&[
    shown(text(1, "name")),
    many(2, "resources", &whole(&[shown(text(1, "resourceID")), text(2, "health")])),
]);

static CLAIM_STATUS: Message =
    whole(&[shown(text(1, "name")), shown(text(2, "resourceClaimName"))]);

static EXTENDED_CLAIM_STATUS: Message = whole(&[
    many(
        1,
        "requestMappings",
        &whole(&[
            shown(text(1, "containerName")),
            shown(text(2, "resourceName")),
            shown(text(3, "requestName")),
        ]),
    ),
    shown(text(2, "resourceClaimName")),
]);

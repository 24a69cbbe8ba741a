"""Scheduling requests and placement constraints, as tables."""

from dromon.hadoop.messages.records import EXECUTION_TYPE_REQUEST, PRIORITY, RESOURCE
from dromon.hadoop.protobuf import ENUM, INT32, INT64, STRING, Table, many, need, one

RESOURCE_SIZING = Table(
    "ResourceSizingProto",
    one(1, "num_allocations", INT32),
    one(2, "resources", RESOURCE),
)
PLACEMENT_CONSTRAINT_TARGET = Table(
    "PlacementConstraintTargetProto",
    need(1, "target_type", ENUM),
    one(2, "target_key", STRING),
    many(3, "target_values", STRING),
)
SIMPLE_PLACEMENT_CONSTRAINT = Table(
    "SimplePlacementConstraintProto",
    need(1, "scope", STRING),
    many(2, "target_expressions", PLACEMENT_CONSTRAINT_TARGET),
    one(3, "min_cardinality", INT32),
    one(4, "max_cardinality", INT32),
    one(5, "attribute_op_code", ENUM),
)
TIMED_PLACEMENT_CONSTRAINT = Table(
    "TimedPlacementConstraintProto",
    need(2, "scheduling_delay", INT64),
    one(3, "delay_unit", ENUM, 1),
)
COMPOSITE_PLACEMENT_CONSTRAINT = Table(
    "CompositePlacementConstraintProto",
    need(1, "composite_type", ENUM),
    many(3, "timed_child_constraints", TIMED_PLACEMENT_CONSTRAINT),
)
PLACEMENT_CONSTRAINT = Table(
    "PlacementConstraintProto",
    one(1, "simple_constraint", SIMPLE_PLACEMENT_CONSTRAINT),
    one(2, "composite_constraint", COMPOSITE_PLACEMENT_CONSTRAINT),
)
PLACEMENT_CONSTRAINT_MAP_ENTRY = Table(
    "PlacementConstraintMapEntryProto",
    many(1, "allocation_tags", STRING),
    one(2, "placement_constraint", PLACEMENT_CONSTRAINT),
)
SCHEDULING_REQUEST = Table(
    "SchedulingRequestProto",
    one(1, "allocation_request_id", INT64, 0),
    one(2, "priority", PRIORITY),
    one(3, "execution_type", EXECUTION_TYPE_REQUEST),
    many(4, "allocation_tags", STRING),
    one(5, "resource_sizing", RESOURCE_SIZING),
    one(6, "placement_constraint", PLACEMENT_CONSTRAINT),
)
REJECTED_SCHEDULING_REQUEST = Table(
    "RejectedSchedulingRequestProto",
    need(1, "reason", ENUM),
    need(2, "request", SCHEDULING_REQUEST),
)
TIMED_PLACEMENT_CONSTRAINT.extend(need(1, "placement_constraint", PLACEMENT_CONSTRAINT))
COMPOSITE_PLACEMENT_CONSTRAINT.extend(many(2, "child_constraints", PLACEMENT_CONSTRAINT))

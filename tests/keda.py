"""What KEDA's documentation has of its resources, as far as configs/kubernetes goes; an unknown field is an error."""

# ruff: noqa: N815 - the names are KEDA's

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["ScaledObject", "ScaledObjectSpec", "TriggerAuthentication"]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Metadata(Strict):
    name: str
    namespace: Literal["mcqueue"]


class SecretTarget(Strict):
    parameter: Literal["username", "password", "address", "host", "port", "ca", "cert", "key", "keyPassword", "tls"]
    name: str
    key: str


class TriggerAuthenticationSpec(Strict):
    secretTargetRef: list[SecretTarget] = Field(min_length=1)


class TriggerAuthentication(Strict):
    apiVersion: Literal["keda.sh/v1alpha1"]
    kind: Literal["TriggerAuthentication"]
    metadata: Metadata
    spec: TriggerAuthenticationSpec


class Target(Strict):
    apiVersion: Literal["apps/v1"]
    kind: Literal["Deployment", "StatefulSet"]
    name: str


class ScalingModifiers(Strict):
    formula: str
    target: str = Field(pattern=r"^\d+(\.\d+)?$")
    activationTarget: str = "0"
    metricType: Literal["AverageValue", "Value"] = "AverageValue"


class Advanced(Strict):
    scalingModifiers: ScalingModifiers
    restoreToOriginalReplicaCount: bool = False
    #: Kubernetes' own.
    horizontalPodAutoscalerConfig: dict[Literal["name", "behavior"], Any]


class RedisList(Strict):
    """Parameters of KEDA's Redis lists scaler, which are all texts."""

    address: str = Field(pattern=r"^[\w.-]+:\d+$")
    listName: str
    listLength: str = Field(default="5", pattern=r"^\d+$")
    activationListLength: str = Field(default="0", pattern=r"^\d+$")
    databaseIndex: str = Field(default="0", pattern=r"^\d+$")
    enableTLS: Literal["true", "false"] = "false"


class Authentication(Strict):
    name: str
    kind: Literal["TriggerAuthentication", "ClusterTriggerAuthentication"] = "TriggerAuthentication"


class Trigger(Strict):
    type: Literal["redis"]
    #: Needed where a formula uses it.
    name: str
    metadata: RedisList
    authenticationRef: Authentication


class ScaledObjectSpec(Strict):
    scaleTargetRef: Target
    minReplicaCount: int = Field(ge=0)
    maxReplicaCount: int = Field(ge=1)
    pollingInterval: int = Field(ge=1)
    cooldownPeriod: int = Field(ge=0)
    advanced: Advanced
    triggers: list[Trigger] = Field(min_length=1)


class ScaledObject(Strict):
    apiVersion: Literal["keda.sh/v1alpha1"]
    kind: Literal["ScaledObject"]
    metadata: Metadata
    spec: ScaledObjectSpec

"""Which fields a pod has and of what type each is: the published Kubernetes API, as far as a pod template can use it.

A template is read into the types of the API: a number in the place of a text becomes a text, as the client that Spark uses
does it, and what cannot be converted is refused with its place. The table lists types, each with its fields by kind:

``text``, ``int`` (32 bits), ``long``, ``flag``, ``quantity`` and ``port`` (a number or a name) are single values; a name in
capitals is another type; ``[kind]`` is a list and ``{kind}`` a map from texts. Fields that the API does not have yet are no
mistakes: they are kept as they are. A pod's status is none of a template's business.

From the API's OpenAPI description, 1.35.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TABLE: Final = """
Pod = text: apiVersion kind; ObjectMeta: metadata; PodSpec: spec;
ObjectMeta = {text}: annotations labels; text: creationTimestamp deletionTimestamp generateName name namespace
    resourceVersion selfLink uid; long: deletionGracePeriodSeconds generation; [text]: finalizers; [OwnerReference]:
    ownerReferences;
PodSpec = long: activeDeadlineSeconds terminationGracePeriodSeconds; Affinity: affinity; flag:
    automountServiceAccountToken enableServiceLinks hostIPC hostNetwork hostPID hostUsers setHostnameAsFQDN
    shareProcessNamespace; [Container]: containers initContainers; PodDNSConfig: dnsConfig; text: dnsPolicy hostname
    hostnameOverride nodeName preemptionPolicy priorityClassName restartPolicy runtimeClassName schedulerName
    serviceAccount serviceAccountName subdomain; [EphemeralContainer]: ephemeralContainers; [HostAlias]: hostAliases;
    [LocalObjectReference]: imagePullSecrets; {text}: nodeSelector; PodOS: os; {quantity}: overhead; int: priority;
    [PodReadinessGate]: readinessGates; [PodResourceClaim]: resourceClaims; ResourceRequirements: resources;
    [PodSchedulingGate]: schedulingGates; PodSecurityContext: securityContext; [Toleration]: tolerations;
    [TopologySpreadConstraint]: topologySpreadConstraints; [Volume]: volumes; WorkloadReference: workloadRef;
OwnerReference = text: apiVersion kind name uid; flag: blockOwnerDeletion controller;
Affinity = NodeAffinity: nodeAffinity; PodAffinity: podAffinity; PodAntiAffinity: podAntiAffinity;
Container = [text]: args command; [EnvVar]: env; [EnvFromSource]: envFrom; text: image imagePullPolicy name
    restartPolicy terminationMessagePath terminationMessagePolicy workingDir; Lifecycle: lifecycle; Probe:
    livenessProbe readinessProbe startupProbe; [ContainerPort]: ports; [ContainerResizePolicy]: resizePolicy;
    ResourceRequirements: resources; [ContainerRestartRule]: restartPolicyRules; SecurityContext: securityContext;
    flag: stdin stdinOnce tty; [VolumeDevice]: volumeDevices; [VolumeMount]: volumeMounts;
PodDNSConfig = [text]: nameservers searches; [PodDNSConfigOption]: options;
EphemeralContainer = [text]: args command; [EnvVar]: env; [EnvFromSource]: envFrom; text: image imagePullPolicy name
    restartPolicy targetContainerName terminationMessagePath terminationMessagePolicy workingDir; Lifecycle:
    lifecycle; Probe: livenessProbe readinessProbe startupProbe; [ContainerPort]: ports; [ContainerResizePolicy]:
    resizePolicy; ResourceRequirements: resources; [ContainerRestartRule]: restartPolicyRules; SecurityContext:
    securityContext; flag: stdin stdinOnce tty; [VolumeDevice]: volumeDevices; [VolumeMount]: volumeMounts;
HostAlias = [text]: hostnames; text: ip;
LocalObjectReference = text: name;
PodOS = text: name;
PodReadinessGate = text: conditionType;
PodResourceClaim = text: name resourceClaimName resourceClaimTemplateName;
ResourceRequirements = [ResourceClaim]: claims; {quantity}: limits requests;
PodSchedulingGate = text: name;
PodSecurityContext = AppArmorProfile: appArmorProfile; long: fsGroup runAsGroup runAsUser; text: fsGroupChangePolicy
    seLinuxChangePolicy supplementalGroupsPolicy; flag: runAsNonRoot; SELinuxOptions: seLinuxOptions; SeccompProfile:
    seccompProfile; [long]: supplementalGroups; [Sysctl]: sysctls; WindowsSecurityContextOptions: windowsOptions;
Toleration = text: effect key operator value; long: tolerationSeconds;
TopologySpreadConstraint = LabelSelector: labelSelector; [text]: matchLabelKeys; int: maxSkew minDomains; text:
    nodeAffinityPolicy nodeTaintsPolicy topologyKey whenUnsatisfiable;
Volume = AWSElasticBlockStoreVolumeSource: awsElasticBlockStore; AzureDiskVolumeSource: azureDisk;
    AzureFileVolumeSource: azureFile; CephFSVolumeSource: cephfs; CinderVolumeSource: cinder; ConfigMapVolumeSource:
    configMap; CSIVolumeSource: csi; DownwardAPIVolumeSource: downwardAPI; EmptyDirVolumeSource: emptyDir;
    EphemeralVolumeSource: ephemeral; FCVolumeSource: fc; FlexVolumeSource: flexVolume; FlockerVolumeSource: flocker;
    GCEPersistentDiskVolumeSource: gcePersistentDisk; GitRepoVolumeSource: gitRepo; GlusterfsVolumeSource: glusterfs;
    HostPathVolumeSource: hostPath; ImageVolumeSource: image; ISCSIVolumeSource: iscsi; text: name; NFSVolumeSource:
    nfs; PersistentVolumeClaimVolumeSource: persistentVolumeClaim; PhotonPersistentDiskVolumeSource:
    photonPersistentDisk; PortworxVolumeSource: portworxVolume; ProjectedVolumeSource: projected; QuobyteVolumeSource:
    quobyte; RBDVolumeSource: rbd; ScaleIOVolumeSource: scaleIO; SecretVolumeSource: secret; StorageOSVolumeSource:
    storageos; VsphereVirtualDiskVolumeSource: vsphereVolume;
WorkloadReference = text: name podGroup podGroupReplicaKey;
NodeAffinity = [PreferredSchedulingTerm]: preferredDuringSchedulingIgnoredDuringExecution; NodeSelector:
    requiredDuringSchedulingIgnoredDuringExecution;
PodAffinity = [WeightedPodAffinityTerm]: preferredDuringSchedulingIgnoredDuringExecution; [PodAffinityTerm]:
    requiredDuringSchedulingIgnoredDuringExecution;
PodAntiAffinity = [WeightedPodAffinityTerm]: preferredDuringSchedulingIgnoredDuringExecution; [PodAffinityTerm]:
    requiredDuringSchedulingIgnoredDuringExecution;
EnvVar = text: name value; EnvVarSource: valueFrom;
EnvFromSource = ConfigMapEnvSource: configMapRef; text: prefix; SecretEnvSource: secretRef;
Lifecycle = LifecycleHandler: postStart preStop; text: stopSignal;
Probe = ExecAction: exec; int: failureThreshold initialDelaySeconds periodSeconds successThreshold timeoutSeconds;
    GRPCAction: grpc; HTTPGetAction: httpGet; TCPSocketAction: tcpSocket; long: terminationGracePeriodSeconds;
ContainerPort = int: containerPort hostPort; text: hostIP name protocol;
ContainerResizePolicy = text: resourceName restartPolicy;
ContainerRestartRule = text: action; ContainerRestartRuleOnExitCodes: exitCodes;
SecurityContext = flag: allowPrivilegeEscalation privileged readOnlyRootFilesystem runAsNonRoot; AppArmorProfile:
    appArmorProfile; Capabilities: capabilities; text: procMount; long: runAsGroup runAsUser; SELinuxOptions:
    seLinuxOptions; SeccompProfile: seccompProfile; WindowsSecurityContextOptions: windowsOptions;
VolumeDevice = text: devicePath name;
VolumeMount = text: mountPath mountPropagation name recursiveReadOnly subPath subPathExpr; flag: readOnly;
PodDNSConfigOption = text: name value;
ResourceClaim = text: name request;
AppArmorProfile = text: localhostProfile type;
SELinuxOptions = text: level role type user;
SeccompProfile = text: localhostProfile type;
Sysctl = text: name value;
WindowsSecurityContextOptions = text: gmsaCredentialSpec gmsaCredentialSpecName runAsUserName; flag: hostProcess;
LabelSelector = [LabelSelectorRequirement]: matchExpressions; {text}: matchLabels;
AWSElasticBlockStoreVolumeSource = text: fsType volumeID; int: partition; flag: readOnly;
AzureDiskVolumeSource = text: cachingMode diskName diskURI fsType kind; flag: readOnly;
AzureFileVolumeSource = flag: readOnly; text: secretName shareName;
CephFSVolumeSource = [text]: monitors; text: path secretFile user; flag: readOnly; LocalObjectReference: secretRef;
CinderVolumeSource = text: fsType volumeID; flag: readOnly; LocalObjectReference: secretRef;
ConfigMapVolumeSource = int: defaultMode; [KeyToPath]: items; text: name; flag: optional;
CSIVolumeSource = text: driver fsType; LocalObjectReference: nodePublishSecretRef; flag: readOnly; {text}:
    volumeAttributes;
DownwardAPIVolumeSource = int: defaultMode; [DownwardAPIVolumeFile]: items;
EmptyDirVolumeSource = text: medium; quantity: sizeLimit;
EphemeralVolumeSource = PersistentVolumeClaimTemplate: volumeClaimTemplate;
FCVolumeSource = text: fsType; int: lun; flag: readOnly; [text]: targetWWNs wwids;
FlexVolumeSource = text: driver fsType; {text}: options; flag: readOnly; LocalObjectReference: secretRef;
FlockerVolumeSource = text: datasetName datasetUUID;
GCEPersistentDiskVolumeSource = text: fsType pdName; int: partition; flag: readOnly;
GitRepoVolumeSource = text: directory repository revision;
GlusterfsVolumeSource = text: endpoints path; flag: readOnly;
HostPathVolumeSource = text: path type;
ImageVolumeSource = text: pullPolicy reference;
ISCSIVolumeSource = flag: chapAuthDiscovery chapAuthSession readOnly; text: fsType initiatorName iqn iscsiInterface
    targetPortal; int: lun; [text]: portals; LocalObjectReference: secretRef;
NFSVolumeSource = text: path server; flag: readOnly;
PersistentVolumeClaimVolumeSource = text: claimName; flag: readOnly;
PhotonPersistentDiskVolumeSource = text: fsType pdID;
PortworxVolumeSource = text: fsType volumeID; flag: readOnly;
ProjectedVolumeSource = int: defaultMode; [VolumeProjection]: sources;
QuobyteVolumeSource = text: group registry tenant user volume; flag: readOnly;
RBDVolumeSource = text: fsType image keyring pool user; [text]: monitors; flag: readOnly; LocalObjectReference:
    secretRef;
ScaleIOVolumeSource = text: fsType gateway protectionDomain storageMode storagePool system volumeName; flag: readOnly
    sslEnabled; LocalObjectReference: secretRef;
SecretVolumeSource = int: defaultMode; [KeyToPath]: items; flag: optional; text: secretName;
StorageOSVolumeSource = text: fsType volumeName volumeNamespace; flag: readOnly; LocalObjectReference: secretRef;
VsphereVirtualDiskVolumeSource = text: fsType storagePolicyID storagePolicyName volumePath;
PreferredSchedulingTerm = NodeSelectorTerm: preference; int: weight;
NodeSelector = [NodeSelectorTerm]: nodeSelectorTerms;
WeightedPodAffinityTerm = PodAffinityTerm: podAffinityTerm; int: weight;
PodAffinityTerm = LabelSelector: labelSelector namespaceSelector; [text]: matchLabelKeys mismatchLabelKeys namespaces;
    text: topologyKey;
EnvVarSource = ConfigMapKeySelector: configMapKeyRef; ObjectFieldSelector: fieldRef; FileKeySelector: fileKeyRef;
    ResourceFieldSelector: resourceFieldRef; SecretKeySelector: secretKeyRef;
ConfigMapEnvSource = text: name; flag: optional;
SecretEnvSource = text: name; flag: optional;
LifecycleHandler = ExecAction: exec; HTTPGetAction: httpGet; SleepAction: sleep; TCPSocketAction: tcpSocket;
ExecAction = [text]: command;
GRPCAction = int: port; text: service;
HTTPGetAction = text: host path scheme; [HTTPHeader]: httpHeaders; port: port;
TCPSocketAction = text: host; port: port;
ContainerRestartRuleOnExitCodes = text: operator; [int]: values;
Capabilities = [text]: add drop;
LabelSelectorRequirement = text: key operator; [text]: values;
KeyToPath = text: key path; int: mode;
DownwardAPIVolumeFile = ObjectFieldSelector: fieldRef; int: mode; text: path; ResourceFieldSelector: resourceFieldRef;
PersistentVolumeClaimTemplate = ObjectMeta: metadata; PersistentVolumeClaimSpec: spec;
VolumeProjection = ClusterTrustBundleProjection: clusterTrustBundle; ConfigMapProjection: configMap;
    DownwardAPIProjection: downwardAPI; PodCertificateProjection: podCertificate; SecretProjection: secret;
    ServiceAccountTokenProjection: serviceAccountToken;
NodeSelectorTerm = [NodeSelectorRequirement]: matchExpressions matchFields;
ConfigMapKeySelector = text: key name; flag: optional;
ObjectFieldSelector = text: apiVersion fieldPath;
FileKeySelector = text: key path volumeName; flag: optional;
ResourceFieldSelector = text: containerName resource; quantity: divisor;
SecretKeySelector = text: key name; flag: optional;
SleepAction = long: seconds;
HTTPHeader = text: name value;
PersistentVolumeClaimSpec = [text]: accessModes; TypedLocalObjectReference: dataSource; TypedObjectReference:
    dataSourceRef; VolumeResourceRequirements: resources; LabelSelector: selector; text: storageClassName
    volumeAttributesClassName volumeMode volumeName;
ClusterTrustBundleProjection = LabelSelector: labelSelector; text: name path signerName; flag: optional;
ConfigMapProjection = [KeyToPath]: items; text: name; flag: optional;
DownwardAPIProjection = [DownwardAPIVolumeFile]: items;
PodCertificateProjection = text: certificateChainPath credentialBundlePath keyPath keyType signerName; int:
    maxExpirationSeconds; {text}: userAnnotations;
SecretProjection = [KeyToPath]: items; text: name; flag: optional;
ServiceAccountTokenProjection = text: audience path; long: expirationSeconds;
NodeSelectorRequirement = text: key operator; [text]: values;
TypedLocalObjectReference = text: apiGroup kind name;
TypedObjectReference = text: apiGroup kind name namespace;
VolumeResourceRequirements = {quantity}: limits requests;
"""


def _parsed(table: str) -> Mapping[str, Mapping[str, str]]:
    types: dict[str, dict[str, str]] = {}
    for line in table.replace("\n    ", " ").strip().splitlines():
        name, _, groups = line.partition(" = ")
        fields = types.setdefault(name, {})
        for group in groups.split(";"):
            kind, _, names = group.strip().partition(": ")
            fields.update(dict.fromkeys(names.split(), kind))
    return types


POD_TYPES: Final = _parsed(_TABLE)
"""Type to field to kind."""

// Package deploy holds the files below deploy/ to what Kubernetes, Compose and Swarm
// read, and to each other. It is a Go module of its own: nothing else needs their types.
package deploy

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"gopkg.in/yaml.v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strict "sigs.k8s.io/yaml"
)

const deploy = "../../../deploy"

// margin is how much longer an engine waits than rlminit takes to stop everything.
const margin = 5 * time.Second

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// member is what counts here of the configuration of a member's image.
type member struct {
	stop      time.Duration
	endpoints []string
}

func readMember(t *testing.T) member {
	t.Helper()
	var box struct {
		StopTimeout string `yaml:"stop_timeout"`
		Fleet       struct {
			Member  string
			Release string
			Etcd    struct{ Endpoints []string }
		}
	}
	if err := yaml.Unmarshal(read(t, "rlminit.yaml"), &box); err != nil {
		t.Fatal(err)
	}
	fleet := box.Fleet
	stop, err := time.ParseDuration(box.StopTimeout)
	if release, bad := time.ParseDuration(fleet.Release); bad != nil || release+margin > stop {
		t.Errorf("a member gives all back within %q, and rlminit has %s to stop", fleet.Release, stop)
	}
	if err != nil || fleet.Member != "${HOSTNAME}" || len(fleet.Etcd.Endpoints) != 3 {
		t.Fatalf("the member's files: %v, %+v", err, fleet)
	}
	return member{stop: stop, endpoints: fleet.Etcd.Endpoints}
}

// manifests decodes all objects of the Kubernetes files, strictly.
type manifests struct {
	sets     map[string]*appsv1.StatefulSet
	services map[string]*corev1.Service
	budgets  map[string]*policyv1.PodDisruptionBudget
}

func readManifests(t *testing.T) manifests {
	t.Helper()
	m := manifests{map[string]*appsv1.StatefulSet{}, map[string]*corev1.Service{}, map[string]*policyv1.PodDisruptionBudget{}}
	var list struct{ Resources []string }
	if err := yaml.Unmarshal(read(t, "kubernetes/kustomization.yaml"), &list); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(deploy, "kubernetes", "*.yaml"))
	if err != nil || len(files) != len(list.Resources)+1 {
		t.Errorf("kustomization.yaml names %v of %v", list.Resources, files)
	}
	for _, name := range list.Resources {
		for _, text := range bytes.Split(read(t, "kubernetes/"+name), []byte("\n---\n")) {
			var kind metav1.TypeMeta
			if err := strict.Unmarshal(text, &kind); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			m.add(t, name, kind, text)
		}
	}
	return m
}

func (m manifests) add(t *testing.T, file string, kind metav1.TypeMeta, text []byte) {
	t.Helper()
	var err error
	switch kind.APIVersion + " " + kind.Kind {
	case "apps/v1 StatefulSet":
		o := new(appsv1.StatefulSet)
		err = strict.UnmarshalStrict(text, o)
		m.sets[o.Name] = o
	case "v1 Service":
		o := new(corev1.Service)
		err = strict.UnmarshalStrict(text, o)
		m.services[o.Name] = o
	case "policy/v1 PodDisruptionBudget":
		o := new(policyv1.PodDisruptionBudget)
		err = strict.UnmarshalStrict(text, o)
		m.budgets[o.Name] = o
	default:
		err = fmt.Errorf("nobody checks a %s of %s", kind.Kind, kind.APIVersion)
	}
	if err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

// TestKubernetes: each set has its headless service and its budget, selects its own
// pods, and asks for no token; a pod has time to stop; etcd's nodes are called what the
// members call them.
func TestKubernetes(t *testing.T) {
	m := readManifests(t)
	box := readMember(t)
	for _, name := range []string{"etcd", "member"} {
		set, service, budget := m.sets[name], m.services[name], m.budgets[name]
		if set == nil || service == nil || budget == nil {
			t.Fatalf("%s: there is no set, no service or no budget", name)
		}
		pod := set.Spec.Template
		if set.Spec.ServiceName != name || service.Spec.ClusterIP != "None" || *set.Spec.Replicas != 3 || budget.Spec.MaxUnavailable.IntValue() != 1 {
			t.Errorf("%s: %+v", name, set.Spec)
		}
		for _, selector := range []map[string]string{set.Spec.Selector.MatchLabels, service.Spec.Selector, budget.Spec.Selector.MatchLabels} {
			if len(selector) == 0 || selector["app"] != pod.Labels["app"] {
				t.Errorf("%s selects %v, and its pods are %v", name, selector, pod.Labels)
			}
		}
		if token := pod.Spec.AutomountServiceAccountToken; token == nil || *token {
			t.Errorf("%s has a token of the API server's", name)
		}
		checkMounts(t, set)
	}
	grace := time.Duration(*m.sets["member"].Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if grace < box.stop+margin {
		t.Errorf("a pod has %s to stop, and rlminit takes up to %s", grace, box.stop)
	}
	for i, at := range box.endpoints {
		if want := fmt.Sprintf("http://etcd-%d.%s:%d", i, m.sets["etcd"].Spec.ServiceName, port(m.services["etcd"], "client")); at != want {
			t.Errorf("members ask %s, and etcd is at %s", at, want)
		}
	}
	checkEtcd(t, "kubernetes", "$(POD)", m.sets["etcd"].Spec.Template.Spec.Containers[0].Command)
}

// checkMounts: what is mounted is there, and ports that are named are open.
func checkMounts(t *testing.T, set *appsv1.StatefulSet) {
	t.Helper()
	var volumes []string
	for _, v := range set.Spec.Template.Spec.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, v := range set.Spec.VolumeClaimTemplates {
		volumes = append(volumes, v.Name)
	}
	c := set.Spec.Template.Spec.Containers[0]
	for _, mount := range c.VolumeMounts {
		if !slices.Contains(volumes, mount.Name) {
			t.Errorf("%s mounts %s, which is not there", set.Name, mount.Name)
		}
	}
	if len(c.VolumeMounts) != len(volumes) {
		t.Errorf("%s has the volumes %v and does not mount them all", set.Name, volumes)
	}
	if h := c.ReadinessProbe.HTTPGet; h != nil && !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == h.Port.StrVal }) {
		t.Errorf("%s is probed at the port %q, which is not there", set.Name, h.Port.StrVal)
	}
}

func port(s *corev1.Service, name string) int32 {
	i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == name })
	return s.Spec.Ports[i].Port
}

// checkEtcd: a node's flags give it the name and the addresses by which members and the
// other nodes know it.
func checkEtcd(t *testing.T, where, name string, command []string) {
	t.Helper()
	const all = "etcd-0=http://etcd-0.etcd:2380,etcd-1=http://etcd-1.etcd:2380,etcd-2=http://etcd-2.etcd:2380"
	for _, flag := range []string{
		"--name=" + name, "--initial-cluster=" + all,
		"--advertise-client-urls=http://" + name + ".etcd:2379", "--initial-advertise-peer-urls=http://" + name + ".etcd:2380",
		"--listen-client-urls=http://0.0.0.0:2379", "--listen-peer-urls=http://0.0.0.0:2380",
	} {
		if !slices.Contains(command, flag) {
			t.Errorf("%s: %s lacks %s", where, name, flag)
		}
	}
}

// TestComposeAndSwarm: the same of their files.
func TestComposeAndSwarm(t *testing.T) {
	box := readMember(t)
	for _, file := range []string{"compose.yaml", "swarm.yaml"} {
		project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
			WorkingDir: deploy, ConfigFiles: []types.ConfigFile{{Filename: file, Content: read(t, file)}},
		}, func(o *loader.Options) { o.SetProjectName("fleet", true) })
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		members, nodes := 0, 0
		for name, s := range project.Services {
			switch {
			case strings.HasPrefix(name, "member"):
				members++
				if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) < box.stop+margin {
					t.Errorf("%s: %s has %v to stop, and rlminit takes up to %s", file, name, s.StopGracePeriod, box.stop)
				}
				if !strings.HasPrefix(s.Hostname, "member-") {
					t.Errorf("%s: %s has the host name %q", file, name, s.Hostname)
				}
			case strings.HasPrefix(name, "etcd-"):
				nodes++
				checkEtcd(t, file, name, s.Command)
				for _, n := range s.Networks {
					if n == nil || !slices.Contains(n.Aliases, name+".etcd") {
						t.Errorf("%s: nobody finds %s as %s.etcd", file, name, name)
					}
				}
			default:
				t.Errorf("%s: nobody checks %s", file, name)
			}
		}
		if r := project.Services["member"].Deploy; nodes != 3 || members != 3 && (r == nil || *r.Replicas != 3) {
			t.Errorf("%s: %d members and %d nodes", file, members, nodes)
		}
	}
}

// TestOneEtcd: all files, and the tests, have one version of etcd.
func TestOneEtcd(t *testing.T) {
	server, err := os.ReadFile("../etcd/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	tested := regexp.MustCompile(`go\.etcd\.io/etcd/server/v3 (v\S+)`).FindSubmatch(server)
	if tested == nil {
		t.Fatal("the tests have no etcd")
	}
	for _, file := range []string{"compose.yaml", "swarm.yaml", "kubernetes/etcd.yaml"} {
		all := regexp.MustCompile(`quay\.io/coreos/etcd:(\S+)`).FindAllSubmatch(read(t, file), -1)
		if len(all) == 0 {
			t.Errorf("%s names no etcd", file)
		}
		for _, m := range all {
			if string(m[1]) != string(tested[1]) {
				t.Errorf("%s has etcd %s, and what is tested is %s", file, m[1], tested[1])
			}
		}
	}
}

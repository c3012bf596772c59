package docker

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rlminit/tests/box"
)

// names of containers, volumes and images in the recipes; each has a run's own.
var moved = regexp.MustCompile(`moved-[a-z0-9]+`)

// TestRecipes types the pages of docs/from as they stand, but for the names of images,
// containers and volumes, which are this run's.
func TestRecipes(t *testing.T) {
	t.Parallel()
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "from", "*.md"))
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) { typeRecipe(t, page) })
	}
}

func typeRecipe(t *testing.T, page string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := blocks(string(text))
	if len(all) < 3 {
		t.Fatalf("the page has %d blocks", len(all))
	}
	// A name stands for a container, a volume, or an image, which has to have this run's name.
	own := "rlminit-moved-" + runName
	image := regexp.MustCompile(`(docker build (?:--build-arg \S+ )?-t |docker run .*)(moved-[a-z0-9]+(?::[a-z]+)?)( \.)?\n`)
	rename := func(s string) string {
		s = image.ReplaceAllStringFunc(s, func(l string) string {
			m := image.FindStringSubmatch(l)
			return m[1] + imageName(runName) + ":" + strings.ReplaceAll(m[2], ":", "-") + m[3] + "\n"
		})
		s = strings.ReplaceAll(s, "docker build -t "+imageName(runName)+":", "docker build -q -t "+imageName(runName)+":")
		s = moved.ReplaceAllStringFunc(s, func(name string) string { return own + strings.TrimPrefix(name, "moved") })
		s = strings.ReplaceAll(s, imageName(runName)+":"+own, imageName(runName)+":moved")
		return strings.NewReplacer("rlminit:demo", built.demo, "debian:bookworm-slim", built.base).Replace(s)
	}
	dir := t.TempDir()
	t.Cleanup(func() {
		for _, name := range moved.FindAllString(string(text), -1) {
			name = own + strings.TrimPrefix(name, "moved")
			for _, suffix := range []string{"", "-one", "-two"} {
				_ = exec.Command("docker", "rm", "-f", name+suffix).Run()
			}
			_ = exec.Command("docker", "volume", "rm", name).Run()
		}
	})
	began := time.Now()
	typed(t, all, dir, rename, own)
	t.Logf("figure: docs/from/%s takes %.0f s to type", filepath.Base(page), time.Since(began).Seconds())
}
